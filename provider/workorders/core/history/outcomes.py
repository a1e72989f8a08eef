"""How work orders ended, asked by those who wait for it. Reads only."""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from psycopg.rows import class_row

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.history", "sql/outcomes.sql")


@dataclass(frozen=True, slots=True)
class WorkOrderOutcome:
    """The end of a work order."""

    id: UUID
    state: str
    error_type: str | None
    """Kind of the error; of a rejected work order the code of its rejection."""
    error: str | None
    output: str | None
    """What the newest run gave back, as JSON text; None when it gave nothing, or its output is kept no longer."""


def find_ended(connection: Connection, ids: Collection[UUID]) -> list[UUID]:
    """Return those of the work orders that came to an end. Reads no output: many may ask, and often."""
    return [id_ for (id_,) in connection.execute(_QUERIES["ended"], {"ids": list(ids)}).fetchall()]


def find_outcome(connection: Connection, id_: UUID) -> WorkOrderOutcome | None:
    """Return how a work order ended; None if it has not, or is no longer there."""
    with connection.cursor(row_factory=class_row(WorkOrderOutcome)) as cursor:
        return cursor.execute(_QUERIES["outcome"], {"id": id_}).fetchone()
