"""How the work orders ended, asked with plain SQL."""

from collections import Counter
from typing import Any
from uuid import UUID

import psycopg

from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("demo", "executed.sql")


class Executed:
    """Work orders and runs in the database."""

    def __init__(self, url: str) -> None:
        self._url = url

    def unfinished(self) -> int:
        """Return how many work orders wait or are at work."""
        return int(self._rows("unfinished")[0][0])

    def states(self) -> Counter[str]:
        """Return how many work orders there are in each state."""
        return Counter(dict(self._rows("states")))

    def runs(self) -> int:
        """Return how many runs there are."""
        return int(self._rows("runs")[0][0])

    def newest(self) -> UUID:
        """Return the work order that was executed last."""
        id_: UUID = self._rows("newest")[0][0]
        return id_

    def attempts(self, work_order_id: UUID) -> list[str]:
        """Return the states of the runs of a work order."""
        return [row[0] for row in self._rows("attempts", work_order_id=work_order_id)]

    def out_of_order(self) -> int:
        """Return how many runs began before the run of an older event of their ordering key had ended."""
        return int(self._rows("out_of_order")[0][0])

    def alarms(self) -> Counter[str]:
        """Return how often a run has found each event alarming, by the event's id."""
        return Counter(row[0] for row in self._rows("alarms"))

    def unsent(self) -> int:
        """Return how many messages are left in the outbox."""
        return int(self._rows("unsent")[0][0])

    def log_lines(self) -> list[str]:
        """Return a few lines of runs' logs."""
        return [line for row in self._rows("logs") for line in row[0].splitlines()]

    def _rows(self, query: str, **arguments: Any) -> list[Any]:
        with psycopg.connect(self._url, autocommit=True, application_name="demo") as connection:
            return connection.execute(_QUERIES[query], arguments).fetchall()
