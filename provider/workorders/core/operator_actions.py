"""What operators did by a command, with the actor and the reason, where no other table records it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from workorders.core.attribution import Attribution
from workorders.core.postgres.connection import Connection, list_rows
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core", "sql/operator_actions.sql")


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """A command that an operator gave."""

    id: int
    acted_at: datetime
    actor: str
    account: str
    """The account of the operating system, independent of `actor`."""
    action: str
    """The command, such as `outbox purge`."""
    details: Mapping[str, Any]
    """What it was given, such as the number of the hold."""
    reason: str


def record(connection: Connection, action: str, details: Mapping[str, Any], by: Attribution) -> None:
    """Record an action before it is done, and commit: so there is no action without a record."""
    with connection.transaction():
        connection.execute(_QUERIES["record"], {"action": action, "details": Jsonb(details), **asdict(by)})


def list_actions(connection: Connection, *, before: int | None = None, limit: int = 20) -> list[OperatorAction]:
    """Return a page of actions, newest first."""
    return list_rows(connection, OperatorAction, _QUERIES["actions"], {"before": before, "limit": limit})
