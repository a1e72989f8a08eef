"""How often an event came again, when last and where from: in work orders of their own, or counted by its key.

What a trigger's `idempotency` or `sequence` recognises is kept as a rejected work order. What the source itself names
by a key that is known, such as a webhook's `Idempotency-Key`, creates nothing, and is counted beside the work order.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from psycopg.rows import class_row

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.admission", "sql/duplicates.sql")

NEWEST: Final = 10
"""So many of the repeats that were kept are looked up."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repeat that was kept as a rejected work order."""

    id: UUID
    created_at: datetime
    stream: str | None
    position: int | None


@dataclass(frozen=True, slots=True)
class Repeats:
    """What is known of the repeats of one work order."""

    kept: int
    """Repeats that are rejected work orders of their own."""
    by_key: int
    """Repeats of its source's key, which created nothing."""
    last_at: datetime | None
    """When the last one of either came; None when it was never repeated."""
    last_request: str | None
    """Metadata of the last repeat by key, as indented JSON text; None when there is none, or it was wiped."""
    newest: list[Repeat]
    """The newest of those that were kept, the newest first."""

    @property
    def times(self) -> int:
        """How often it was repeated, in either way."""
        return self.kept + self.by_key


@dataclass(frozen=True, slots=True)
class _Counts:
    kept: int
    by_key: int
    last_at: datetime | None
    last_request: str | None


def count(connection: Connection, work_order_id: UUID, request: bytes) -> None:
    """Count a repeat that created nothing, in the caller's transaction.

    Args:
        connection: where the caller's transaction is.
        work_order_id: what it repeats.
        request: metadata of the repeat, as JSON.
    """
    connection.execute(_QUERIES["count"], {"id": work_order_id, "request": request.decode()})


def of(connection: Connection, work_order_id: UUID) -> Repeats:
    """Return what is known of the repeats of a work order."""
    with connection.cursor(row_factory=class_row(_Counts)) as cursor:
        counts = cursor.execute(_QUERIES["counts"], {"id": work_order_id}).fetchone()
    if counts is None:  # cannot be: the query begins with one row
        raise LookupError(work_order_id)
    with connection.cursor(row_factory=class_row(Repeat)) as cursor:
        newest = cursor.execute(_QUERIES["newest"], {"id": work_order_id, "limit": NEWEST}).fetchall()
    times = [time for time in (counts.last_at, *(repeat.created_at for repeat in newest[:1])) if time is not None]
    return Repeats(counts.kept, counts.by_key, max(times, default=None), counts.last_request, newest)


def forget(connection: Connection) -> None:
    """Delete what was counted for work orders that are no longer there."""
    connection.execute(_QUERIES["forget"])
