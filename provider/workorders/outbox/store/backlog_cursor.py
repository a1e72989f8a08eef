"""A window on what waits: one look at the table, from which several batches are cut.

Each batch that looked for itself would pass again over all rows that are under way, or were just deleted.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from psycopg import ServerCursor

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.store.claims import Wanted
from workorders.outbox.store.rows import Part, Reading, Row, as_reading, bytes_of, ids_of, place_of

_QUERIES = load_queries("workorders.outbox.store", "sql/relay.sql")

_PLACES: Final = 64
"""Buckets of topics that are read by turns, with a cursor each. Where more wait, each topic has one before any has two,
and chance says which."""
_LARGEST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Place:
    """A bucket of a topic, whose rows come oldest first."""

    #: Its share of a batch.
    rows: int
    cursor: ServerCursor[tuple[Any, ...]]


class Window:
    """What was waiting when it was opened, batch after batch, in each of which all places have their share."""

    def __init__(self, places: Sequence[_Place], wanted: Wanted) -> None:
        self._places = deque(places)
        self._wanted = wanted
        #: Fetched for a batch that was full of bytes.
        self._left: list[Row] = []
        #: How many rows came out of it.
        self.rows_read = 0
        #: Whether it ended at a row that is too large to be fetched with so many others.
        self.met_large = False

    @property
    def is_over(self) -> bool:
        """Whether everything was read that was to be seen."""
        return not self._places and not self._left

    def batch(self) -> Reading | None:
        """Return the rows that go together next; None when there are no more."""
        found: dict[tuple[str, int], list[Row]] = {}
        count = size = 0
        while count < self._wanted.messages:
            rows, self._left = self._left or self._fetch(self._wanted.messages - count), []
            size += bytes_of(rows)
            if found and size > self._wanted.bytes:
                self._left = rows
            if not rows or self._left:
                break
            count += len(rows)
            found.setdefault(place_of(rows[0]), []).extend(rows)
        self.rows_read += count
        return as_reading(list(chain.from_iterable(found.values()))) if found else None

    def _fetch(self, most: int) -> list[Row]:
        """Return rows of the place whose turn it is; none when all are at their end."""
        rows: list[Any] = []
        while not rows and self._places and not self.met_large:
            place = self._places[0]
            rows = place.cursor.fetchmany(min(place.rows, most))
            if len(rows) < min(place.rows, most):
                self._places.popleft()
            else:
                self._places.rotate(-1)
            ids = ids_of(rows)
            if None in ids:
                # What stands behind it may be of its key.
                self.met_large = True
                del rows[ids.index(None) :]
        return rows


@contextmanager
def opened(
    connection: Connection,
    buckets: Sequence[int],
    wanted: Wanted,
    *,
    under_way: Sequence[Part],
    rows_a_fetch: int,
) -> Iterator[Window | None]:
    """Look at what waits, in a transaction that ends with the context, and locks and writes nothing.

    What is read may be claimed once all that is under way is known to be in Kafka, batch after batch, and must be
    forgotten if any of it is not, or if anything of the shard was held since. What commits later does not matter: who
    sees a message of a key sees all earlier ones, and all messages of a key are in one bucket, so in one look.

    Args:
        connection: for this alone, since it is used while others work.
        buckets: of the shard.
        wanted: what a batch may hold.
        under_way: what was read before and may still be in the table.
        rows_a_fetch: how many rows come at a time at most. So many of the largest rows that are let through fill a
            batch, so no more than that is ever fetched in vain.

    Returns:
        The window; None when keys are held, whose rows have to step aside first, or something held is to be tried.
    """
    with connection.transaction(), ExitStack() as cursors:
        held = connection.execute(_QUERIES["is_held_or_due"], {"buckets": list(buckets)}).fetchone()
        if held is None or held[0]:
            yield None
            return
        found = connection.execute(_QUERIES["places"], {**wanted.arguments(buckets), "places": _PLACES}).fetchall()
        buckets_of = Counter(topic for topic, _ in found)
        places = []
        for number, (topic, bucket) in enumerate(found):
            # Topics share the rows of a batch evenly, and so do the buckets of a topic.
            rows = max(1, min(wanted.messages // len(buckets_of) // buckets_of[topic], rows_a_fetch))
            cursor = cursors.enter_context(connection.cursor(f"place {number}", scrollable=False))
            ids = ",".join(part.ids for part in under_way if (part.topic, part.bucket) == (topic, bucket))
            arguments = {
                "topic": topic,
                "bucket": bucket,
                # A single row goes alone, however large it is.
                "most": wanted.bytes // rows_a_fetch if rows_a_fetch > 1 else _LARGEST,
                "under_way": f"{{{ids}}}",
                "event_ids": wanted.event_ids,
            }
            cursor.execute(_QUERIES["read_ahead"], arguments, binary=True)
            places.append(_Place(rows, cursor))
        yield Window(places, wanted)
