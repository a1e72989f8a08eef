"""Events that came again: kept as rejected work orders, or ignored and counted for the work order that they repeat."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from workorders.core.postgres.arrays import uuids
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.admission", "sql/duplicates.sql")

DUPLICATE: Final = "duplicate"


class RepeatOf(NamedTuple):
    """A work order, and the one that it repeats."""

    id: bytes | None
    """None if it was not written."""
    original: bytes


class Ignored(NamedTuple):
    """How many written work orders were deleted as ignored repeats."""

    with_input: int
    rejected: int


@dataclass(frozen=True, slots=True)
class Repeats:
    """What is known of the repeats of one work order."""

    kept: int
    """Repeats that are rejected work orders."""
    ignored: int
    """Repeats that created no work order."""
    last_at: datetime | None
    """When the last one of either came; None when it was never repeated."""

    @property
    def total(self) -> int:
        """How often it was repeated."""
        return self.kept + self.ignored


def ignore(connection: Connection, repeats: Sequence[RepeatOf]) -> Ignored:
    """Delete what was written for repeats, and count them for the holders of their keys that are not deleted."""
    if not repeats:
        return Ignored(0, 0)
    arguments = {"ids": uuids(part.id for part in repeats), "holders": uuids(part.original for part in repeats)}
    return Ignored(*fetch_row(connection, _QUERIES["ignore"], arguments))


def summary(connection: Connection, work_order_id: UUID) -> Repeats:
    """Return what is known of the repeats of a work order."""
    return Repeats(*fetch_row(connection, _QUERIES["counts"], {"id": work_order_id}))
