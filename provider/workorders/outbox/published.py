"""What the runs of a work order have published, and what became of each message."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import class_row

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.outbox", "sql/published.sql")


@dataclass(frozen=True, slots=True)
class PublishedMessage:
    """A message that a run has published."""

    run_id: UUID
    attempt: int
    """Number of the run within its work order."""
    topic: str
    event_id: UUID
    state: str
    """`waiting`, `held`, or `sent`: it has left the outbox. A message that a person has purged has left it too, and one
    that a later message of its key has replaced."""
    hold_id: int | None
    """The hold that it is in; None unless it is held."""


def list_published(connection: Connection, work_order_id: UUID, *, limit: int = 50) -> Sequence[PublishedMessage]:
    """Return the first messages that the runs of a work order have published, in the order of publishing."""
    arguments = {"work_order_id": work_order_id, "limit": limit}
    with connection.cursor(row_factory=class_row(PublishedMessage)) as cursor:
        return cursor.execute(_QUERIES["published"], arguments).fetchall()
