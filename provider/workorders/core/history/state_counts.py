"""Counts work orders by state from time to time, and stores the counts, so that they are read at once.

Exact counts would slow down every change of a state. Counting takes about a second per five million work orders. So it
is repeated after some minutes, and takes at most a twentieth of the time.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.history", "sql/state_counts.sql")

_SHORTEST_AGE_SECONDS: Final = 60.0
_SHARE: Final = 20


@dataclass(frozen=True, slots=True)
class Counts:
    """Work orders by state, as they were."""

    by_state: dict[str, int]
    counted_at: datetime | None
    """None when they were never counted."""


def refresh_counts(connection: Connection, *, even_if_recent: bool = False) -> bool:
    """Count again if the counts are old enough, in its own transaction; return whether it did."""
    with connection.transaction():
        connection.execute(_QUERIES["lock"])
        age, took = fetch_row(connection, _QUERIES["age"], {})
        if age is not None and age < max(_SHORTEST_AGE_SECONDS, _SHARE * took) and not even_if_recent:
            return False
        connection.execute(_QUERIES["forget"])
        connection.execute(_QUERIES["recount"])
    return True


def latest_counts(connection: Connection, *, workflow: str | None = None) -> Counts:
    """Return the numbers as they were last counted, of all work orders or of a workflow's."""
    by_state: dict[str, int] = dict(connection.execute(_QUERIES["counts"], {"workflow": workflow}).fetchall())
    return Counts(by_state, fetch_row(connection, _QUERIES["counted_at"], {})[0])
