"""A window on what waits: one look at the table, from which several batches are cut.

Each batch that looked for itself would pass again over all rows that are under way, or were just deleted.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, Final

from psycopg import ServerCursor

from workorders.core.database import Connection
from workorders.core.queries import load_queries
from workorders.outbox.batches import Wanted
from workorders.outbox.rows import ROW_ID, Part, Reading, Row, as_reading, bytes_of

_QUERIES = load_queries("workorders.outbox", "sql/relay.sql")

_ID: Final = itemgetter(ROW_ID)


class Window:
    """What was waiting when it was opened, batch after batch; within a bucket the oldest rows go first."""

    def __init__(self, cursor: ServerCursor[tuple[Any, ...]], wanted: Wanted, rows_a_fetch: int) -> None:
        self._cursor = cursor
        self._wanted = wanted
        self._rows_a_fetch = rows_a_fetch
        self._rows: list[Row] = []
        #: How many rows came out of it.
        self.rows_read = 0
        #: Whether it ended at a row that is too large to be fetched with so many others.
        self.met_large = False
        self._is_over = False

    def batch(self) -> Reading | None:
        """Return the rows that go together next; None when there are no more."""
        rows, self._rows = self._rows, []
        size = bytes_of(rows)
        while len(rows) < self._wanted.messages and not self._is_over:
            fetched = self._fetch(min(self._rows_a_fetch, self._wanted.messages - len(rows)))
            size += bytes_of(fetched)
            if rows and size > self._wanted.bytes:
                self._rows = fetched
                break
            rows += fetched
        self.rows_read += len(rows)
        return as_reading(rows) if rows else None

    def _fetch(self, count: int) -> list[Row]:
        fetched: list[Any] = self._cursor.fetchmany(count)
        self._is_over = len(fetched) < count
        ids = list(map(_ID, fetched))
        if None in ids:
            self.met_large = self._is_over = True
            # What stands behind it may be of its key.
            del fetched[ids.index(None) :]
        return fetched


@contextmanager
def opened(
    connection: Connection,
    buckets: Sequence[int],
    wanted: Wanted,
    *,
    batches: int,
    under_way: Sequence[Part],
    rows_a_fetch: int,
) -> Iterator[Window | None]:
    """Look at what waits, in a transaction that ends with the context, and locks and writes nothing.

    What is read may be claimed once all that is under way is known to be in Kafka, batch after batch, and must be
    forgotten if any of it is not, or if anything of the shard was held since. What commits later does not matter: who
    sees a message of a key sees all earlier ones.

    Args:
        connection: for this alone, since it is used while others work.
        buckets: of the shard.
        wanted: what a batch may hold.
        batches: how many of them there may be.
        under_way: what was read before and may still be in the table.
        rows_a_fetch: how many rows come at a time. So many of the largest rows that it lets through fill a batch, so
            no more than that is ever in memory.

    Returns:
        The window; None when keys are held, whose rows have to step aside first, or something held is to be tried.
    """
    arguments = {
        **wanted.arguments(buckets),
        "messages": wanted.messages * batches,
        # A single row goes alone, however large it is.
        "most": wanted.bytes // rows_a_fetch if rows_a_fetch > 1 else 2**31 - 1,
        "under_way": f"{{{','.join(part.ids for part in under_way)}}}",
    }
    with connection.transaction():
        held = connection.execute(_QUERIES["is_held_or_due"], {"buckets": list(buckets)}).fetchone()
        if held is None or held[0]:
            yield None
            return
        with connection.cursor("ahead", scrollable=False) as cursor:
            cursor.execute(_QUERIES["read_ahead"], arguments, binary=True)
            yield Window(cursor, wanted, rows_a_fetch)
