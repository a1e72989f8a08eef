"""How work orders ended, asked by those who wait for it. Reads only."""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import class_row

from workorders.core.database import Connection
from workorders.core.queries import load_queries

_QUERIES = load_queries("workorders.core", "sql/outcomes.sql")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a work order."""

    id: UUID
    state: str
    error_type: str | None
    """Kind of the error; of a rejected work order the code of its rejection."""
    error: str | None
    output: str | None
    """What the newest run gave back, as JSON text; None when it gave nothing, or its output is kept no longer."""


def finished(connection: Connection, ids: Collection[UUID]) -> list[Outcome]:
    """Return the outcomes of those work orders that came to an end; the others are left out."""
    with connection.cursor(row_factory=class_row(Outcome)) as cursor:
        return cursor.execute(_QUERIES["finished"], {"ids": list(ids)}).fetchall()
