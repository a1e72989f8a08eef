"""Work orders that have an input and are refused all the same: they become rejected ones that keep it."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from workorders.core.items import Item, Rejection
from workorders.core.postgres import binary_rows
from workorders.core.postgres.arrays import uuids
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.copy import copy
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.admission", "sql/rejections.sql")

DUPLICATE: Final = "duplicate"
"""The code of a work order whose event came before."""


class AdmissionRejection(NamedTuple):
    """A work order that is not let in."""

    id: bytes
    code: str
    """A short kebab-case word to filter by, such as `duplicate`."""
    detail: str
    """One plain clause; it names no value of the event."""
    original: bytes | None = None
    """The work order that this one repeats, if it is known."""


def reject_written(connection: Connection, refused: Sequence[AdmissionRejection]) -> None:
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


class InlineDuplicate(NamedTuple):
    """A work order that was written as the rejected repeat of another one of the same call."""

    id: bytes
    first: bytes


def duplicate_of(id_: bytes) -> str:
    """Return the detail of a duplicate."""
    text = id_.hex()
    return f"duplicate of {text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def as_duplicate(item: Item, first: bytes) -> Item:
    """Return an item with an input as a rejected one that repeats another and keeps its input as it came."""
    return item._replace(body=None, rejection=Rejection(DUPLICATE, duplicate_of(first)), raw=item.body)


def record_duplicates(
    connection: Connection, repeats: Sequence[InlineDuplicate], originals: Mapping[bytes, bytes]
) -> None:
    """Write down what the repeats are duplicates of.

    Args:
        connection: where the caller's transaction is.
        repeats: work orders that are written as rejected already.
        originals: by the work orders that turned out to be duplicates themselves, what they are duplicates of.
    """
    found = [(part.id, originals.get(part.first, part.first)) for part in repeats]
    copy(connection, "duplicates", binary_rows.DUPLICATE_COLUMNS, (binary_rows.duplicate(*pair) for pair in found))
    wrong = [pair for pair, part in zip(found, repeats, strict=True) if pair[1] != part.first]
    if wrong:
        arguments = {"ids": uuids(id_ for id_, _ in wrong), "details": [duplicate_of(holder) for _, holder in wrong]}
        connection.execute(_QUERIES["correct"], arguments)


def original(connection: Connection, work_order_id: UUID) -> UUID | None:
    """Return the work order that this one is a duplicate of; None when it is none, or nobody knows."""
    row = connection.execute(_QUERIES["original"], {"id": work_order_id}).fetchone()
    return None if row is None else row[0]
