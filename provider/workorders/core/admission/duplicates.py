"""Events that came again: kept as rejected work orders, or ignored and counted for the work order that they repeat."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from workorders.core.postgres.arrays import uuids
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.admission", "sql/duplicates.sql")

DUPLICATE: Final = "duplicate"
NEWEST: Final = 10
"""How many of the kept duplicates a summary lists."""


class RepeatOf(NamedTuple):
    """A written work order, and the one that it repeats."""

    id: bytes
    original: bytes


class Ignored(NamedTuple):
    """How many written work orders were deleted as ignored repeats."""

    with_input: int
    rejected: int


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
    """Repeats that are rejected work orders."""
    ignored: int
    """Repeats that created no work order."""
    last_at: datetime | None
    """When the last one of either came; None when it was never repeated."""
    last_request: str | None
    """Metadata of the last ignored repeat, as indented JSON text; None when there is none, or it was wiped."""
    newest: list[Repeat]
    """The newest of those that were kept, the newest first."""

    @property
    def total(self) -> int:
        """How often it was repeated."""
        return self.kept + self.ignored


def duplicate_of(id_: bytes) -> str:
    """Return the detail of the rejection of a duplicate."""
    return f"duplicate of {UUID(bytes=id_)}"


def ignore(connection: Connection, repeats: Sequence[RepeatOf]) -> Ignored:
    """Delete what was written for repeats, and count them for the holders of their keys."""
    if not repeats:
        return Ignored(0, 0)
    arguments = {"ids": uuids(part.id for part in repeats), "holders": uuids(part.original for part in repeats)}
    return Ignored(*fetch_row(connection, _QUERIES["ignore"], arguments))


def count_ignored(connection: Connection, holder: UUID, request: bytes) -> None:
    """Count a repeat that was not written, with its metadata as JSON; does nothing if the holder is deleted."""
    connection.execute(_QUERIES["count_ignored"], {"id": holder, "request": request.decode()})


def original(connection: Connection, work_order_id: UUID) -> UUID | None:
    """Return the work order that this one is a duplicate of; None when it is no duplicate, or its original unknown."""
    row = connection.execute(_QUERIES["original"], {"id": work_order_id}).fetchone()
    return None if row is None else row[0]


def summary(connection: Connection, work_order_id: UUID) -> Repeats:
    """Return what is known of the repeats of a work order."""
    kept, ignored, last_at, last_request = fetch_row(connection, _QUERIES["counts"], {"id": work_order_id})
    with connection.cursor(row_factory=class_row(Repeat)) as cursor:
        newest = cursor.execute(_QUERIES["newest"], {"id": work_order_id, "limit": NEWEST}).fetchall()
    times = [time for time in (last_at, *(repeat.created_at for repeat in newest[:1])) if time is not None]
    return Repeats(kept, ignored, max(times, default=None), last_request, newest)


def delete_orphans(connection: Connection, *, after: UUID, limit: int) -> UUID | None:
    """Delete what was counted for work orders that are deleted, among the next counts.

    Returns:
        Where this call ended; None if there are no more.
    """
    row = connection.execute(_QUERIES["delete_orphans"], {"after": after, "limit": limit}).fetchone()
    return None if row is None else row[0]
