"""Work orders that have an input and are refused all the same: they become rejected ones that keep it."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from workorders.core.arrays import uuids
from workorders.core.database import Connection
from workorders.core.queries import load_queries

_QUERIES = load_queries("workorders.core", "sql/turned_away.sql")


class TurnedAway(NamedTuple):
    """A work order that is not let in."""

    id: bytes
    code: str
    """A short kebab-case word to filter by, such as `duplicate`."""
    detail: str
    """One plain clause; it names no value of the event."""
    original: bytes | None = None
    """The work order that this one repeats, if it is known."""


def reject(connection: Connection, refused: Sequence[TurnedAway]) -> None:
    """Make rejected work orders of pending ones. The input becomes the raw value, as Postgres writes it."""
    if refused:
        connection.execute(
            _QUERIES["reject"],
            {
                "ids": uuids(part.id for part in refused),
                "codes": [part.code for part in refused],
                "details": [part.detail for part in refused],
                "originals": uuids(part.original for part in refused),
            },
        )


def original(connection: Connection, work_order_id: UUID) -> UUID | None:
    """Return the work order that this one is a duplicate of; None when it is none, or nobody knows."""
    row = connection.execute(_QUERIES["original"], {"id": work_order_id}).fetchone()
    return None if row is None else row[0]


def duplicates(connection: Connection, work_order_id: UUID) -> list[UUID]:
    """Return the duplicates of a work order, oldest first."""
    return [row[0] for row in connection.execute(_QUERIES["duplicates"], {"id": work_order_id})]
