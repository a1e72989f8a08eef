"""Reads the backlog of a shard: messages in their sending order, and holds that are due.

A batch that looked for itself would pass again over all rows that are in flight or were just deleted. So a cursor
looks at the table once, and several batches are cut from what it finds.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, Final, LiteralString

from psycopg import ServerCursor
from psycopg.rows import class_row

from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.store.rows import (
    ROW_BUCKET,
    ROW_ID,
    ROW_TOPIC,
    BucketSlice,
    FetchedRows,
    Row,
    group_by_bucket,
    row_ids,
    topic_and_bucket,
    total_bytes,
)

_QUERIES = load_queries("workorders.outbox.store", "sql/backlog.sql")
_ORDER: Final = itemgetter(ROW_TOPIC, ROW_BUCKET, ROW_ID)

_MAX_CURSORS: Final = 64
"""Buckets of topics that are read by turns, with a cursor each. If more wait, each topic has one cursor before any
topic has two, and chance picks among the rest."""
_UNLIMITED_BYTES: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """What the next batch may contain."""

    max_messages: int
    max_bytes: int
    #: This topic alone, held or not.
    only_topic: str | None = None
    #: No message of these topics.
    excluded_topics: Sequence[str] = ()
    #: The oldest message of this held key alone.
    hold_id: int | None = None
    #: Whether the events' ids are needed, which take time to read.
    with_event_ids: bool = False

    def arguments(self, buckets: Sequence[int]) -> dict[str, Any]:
        """Return the arguments of the queries."""
        return {
            "buckets": list(buckets),
            "messages": self.max_messages,
            "bytes": self.max_bytes,
            "only": self.only_topic,
            "without": list(self.excluded_topics),
            "event_ids": self.with_event_ids,
        }


@dataclass(frozen=True, slots=True)
class DueHold:
    """A hold that is due for a retry."""

    id: int
    kind: str
    topic: str


def waiting_statement(buckets: Sequence[int]) -> tuple[LiteralString, dict[str, Any]]:
    """Return the statement, with its arguments, that yields one row: whether anything waits in these buckets."""
    return _QUERIES["is_anything_waiting"], {"buckets": list(buckets)}


def is_anything_waiting(connection: Connection, buckets: Sequence[int]) -> bool:
    """Return whether a message can be sent or a hold is due. Writes nothing, so frequent calls are cheap."""
    with connection.transaction():
        return bool(fetch_row(connection, *waiting_statement(buckets))[0])


def next_due_hold(connection: Connection, buckets: Sequence[int]) -> DueHold | None:
    """Return the hold that has been due for longest; None if none is due."""
    with connection.transaction(), connection.cursor(row_factory=class_row(DueHold)) as cursor:
        return cursor.execute(_QUERIES["next_due_hold"], {"buckets": list(buckets)}).fetchone()


def read_rows(connection: Connection, buckets: Sequence[int], request: BatchRequest) -> FetchedRows:
    """Return the rows of one batch."""
    # Rows as plain tuples, and in binary, because there are many.
    with connection.cursor(binary=True) as cursor:
        rows = cursor.execute(_QUERIES["read"], request.arguments(buckets)).fetchall()
    # Postgres returns them as it finds them: with very many held keys it may join these in another order. Sorting large
    # rows in Postgres would write them to its disk.
    return group_by_bucket(sorted(rows, key=_ORDER))


@dataclass(frozen=True, slots=True)
class _BucketCursor:
    """A bucket of a topic, whose rows come oldest first."""

    #: Its share of a batch.
    max_rows: int
    cursor: ServerCursor[tuple[Any, ...]]


class BacklogCursor:
    """What was waiting when it was opened, batch after batch; all buckets have their share of each batch."""

    def __init__(self, cursors: Sequence[_BucketCursor], request: BatchRequest) -> None:
        self._cursors = deque(cursors)
        self._request = request
        #: Fetched for a batch that had no bytes left for it.
        self._leftover: list[Row] = []
        self.rows_read = 0
        #: Whether it ended at a row that is too large to be fetched together with others.
        self.stopped_at_oversized = False

    @property
    def is_exhausted(self) -> bool:
        """Whether every row was read that it could see."""
        return not self._cursors and not self._leftover

    def next_batch(self) -> FetchedRows | None:
        """Return the rows of the next batch; None if no more are left."""
        found: dict[tuple[str, int], list[Row]] = {}
        count = size = 0
        while count < self._request.max_messages:
            rows, self._leftover = self._leftover or self._fetch(self._request.max_messages - count), []
            size += total_bytes(rows)
            if found and size > self._request.max_bytes:
                self._leftover = rows
            if not rows or self._leftover:
                break
            count += len(rows)
            found.setdefault(topic_and_bucket(rows[0]), []).extend(rows)
        self.rows_read += count
        return group_by_bucket(list(chain.from_iterable(found.values()))) if found else None

    def _fetch(self, max_rows: int) -> list[Row]:
        """Return rows of the bucket whose turn it is; none if all are at their end."""
        rows: list[Any] = []
        while not rows and self._cursors and not self.stopped_at_oversized:
            bucket = self._cursors[0]
            rows = bucket.cursor.fetchmany(min(bucket.max_rows, max_rows))
            if len(rows) < min(bucket.max_rows, max_rows):
                self._cursors.popleft()
            else:
                self._cursors.rotate(-1)
            ids = row_ids(rows)
            if None in ids:
                # Rows after it may have the same key.
                self.stopped_at_oversized = True
                del rows[ids.index(None) :]
        return rows


@contextmanager
def open_backlog(
    connection: Connection,
    buckets: Sequence[int],
    request: BatchRequest,
    *,
    in_flight: Sequence[BucketSlice],
    rows_per_fetch: int,
) -> Iterator[BacklogCursor | None]:
    """Read the backlog in a transaction that ends with the context, and that locks and writes nothing.

    A batch that was read here may be claimed once every batch before it is known to be in Kafka. It must be discarded
    if one of them is not, or if anything of the shard was held since. Later commits do no harm: a look that sees a
    message of a key sees all earlier ones, because all messages of a key are in one bucket.

    Args:
        connection: used by no other code meanwhile.
        buckets: of the shard.
        request: what a batch may contain.
        in_flight: rows that were read before and may still be in the table.
        rows_per_fetch: maximum of rows per round trip. That many rows of the largest size that passes fill a batch, so
            no fetch returns more than a batch can take.

    Returns:
        The cursor; None if keys are held, whose rows have to be moved first, or a hold is due.
    """
    with connection.transaction(), ExitStack() as cursors:
        (is_held_or_due,) = fetch_row(connection, _QUERIES["is_held_or_due"], {"buckets": list(buckets)})
        if is_held_or_due:
            yield None
            return
        arguments = {**request.arguments(buckets), "limit": _MAX_CURSORS}
        found = connection.execute(_QUERIES["buckets"], arguments).fetchall()
        buckets_per_topic = Counter(topic for topic, _ in found)
        opened = []
        for number, (topic, bucket) in enumerate(found):
            # Topics share the rows of a batch evenly, and so do the buckets of a topic.
            share = request.max_messages // len(buckets_per_topic) // buckets_per_topic[topic]
            cursor = cursors.enter_context(connection.cursor(f"bucket {number}", scrollable=False))
            ids = ",".join(part.ids for part in in_flight if (part.topic, part.bucket) == (topic, bucket))
            cursor.execute(
                _QUERIES["read_ahead"],
                {
                    "topic": topic,
                    "bucket": bucket,
                    # A single row is sent alone, even if it is large.
                    "max_bytes": request.max_bytes // rows_per_fetch if rows_per_fetch > 1 else _UNLIMITED_BYTES,
                    "in_flight": f"{{{ids}}}",
                    "event_ids": request.with_event_ids,
                },
                binary=True,
            )
            opened.append(_BucketCursor(max(1, min(share, rows_per_fetch)), cursor))
        yield BacklogCursor(opened, request)
