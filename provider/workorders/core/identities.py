"""Identity columns whose sequences are behind their rows, as after a switch by logical replication, which copies none.

New rows would then get numbers that exist, or messages of the outbox numbers before those of older ones.
"""

from dataclasses import dataclass
from typing import Final

from workorders.core.exceptions import SchemaError
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES: Final = load_queries("workorders.core", "sql/identities.sql")


@dataclass(frozen=True, slots=True)
class SequenceBehind:
    """A sequence whose next number is not above all that its table has."""

    table: str
    sequence: str
    last: int
    highest: int

    def __str__(self) -> str:
        """Return it as a clause."""
        return f"{self.table}: the sequence is at {self.last:,}, and a row has {self.highest:,}"


def find_behind(connection: Connection) -> list[SequenceBehind]:
    """Return the sequences that are behind their rows, of those that the user may read."""
    # A separate transaction, so that none is left open.
    with connection.transaction():
        numbers = [query for (query,) in connection.execute(_QUERIES["queries"])]
        if not numbers:
            return []
        query = f"SELECT * FROM ({' UNION ALL '.join(numbers)}) AS found WHERE highest > last"
        return [SequenceBehind(*row) for row in connection.execute(query.encode())]


def advance(connection: Connection) -> list[SequenceBehind]:
    """Advance the sequences that are behind their rows to the highest number there, and return what was behind."""
    behind = find_behind(connection)
    for found in behind:
        connection.execute("SELECT setval(%s::regclass, %s)", [found.sequence, found.highest])
    return behind


def require_ahead(connection: Connection) -> None:
    """Raise if a sequence is behind its rows."""
    if behind := find_behind(connection):
        raise SchemaError(
            f"New rows would get numbers that exist ({'; '.join(map(str, behind))}), as after a switch by logical "
            "replication, which copies no sequences. Nothing was changed; run `workorders db migrate`, which advances "
            "them."
        )
