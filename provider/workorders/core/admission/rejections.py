"""Work orders with an input that a rule rejects after they were written: they become rejected ones that keep it."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from workorders.core.postgres.arrays import uuids
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.admission", "sql/rejections.sql")

DUPLICATE: Final = "duplicate"
"""The code of a work order whose event came before."""


class AdmissionRejection(NamedTuple):
    """A work order that a rule rejects."""

    id: bytes
    code: str
    """A short kebab-case word to filter by, such as `duplicate`."""
    detail: str
    """One plain clause; it contains no value of the event."""
    original: bytes | None = None
    """The work order that this one repeats, if it is known."""


def reject_written(connection: Connection, rejected: Sequence[AdmissionRejection]) -> None:
    """Make rejected work orders of pending ones. The input becomes the raw value, as Postgres writes it."""
    if rejected:
        connection.execute(
            _QUERIES["reject"],
            {
                "ids": uuids(part.id for part in rejected),
                "codes": [part.code for part in rejected],
                "details": [part.detail for part in rejected],
                "originals": uuids(part.original for part in rejected),
            },
        )
