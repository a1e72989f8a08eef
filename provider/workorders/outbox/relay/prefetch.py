"""Reads the next batches while one is being sent, in a thread and with a connection of its own."""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

import psycopg
from psycopg_pool import ConnectionPool

from workorders.core.exceptions import one_line
from workorders.core.postgres.client_connection import ClientConnection
from workorders.core.postgres.connection import Connection
from workorders.outbox.store.backlog import BacklogCursor, BatchRequest, open_backlog
from workorders.outbox.store.rows import BucketSlice, FetchedRows

log: Final = logging.getLogger(__name__)

_MAX_CURSOR_SECONDS: Final = 1.0
"""How long a cursor stays open at most: new rows of other buckets wait no longer, and neither does vacuum."""
_JOIN_SECONDS: Final = 5.0
_MAX_ROWS_PER_FETCH: Final = 1000
_FETCH_FACTOR: Final = 30
"""If messages are large, this many times fewer rows are fetched at a time."""


class Prefetcher:
    """Batches that are read ahead of the one that is being sent, until so little is left that a new look is better.

    One batch is ready, and the one after it is being read. The caller marks each batch that was deleted, and stops the
    prefetcher if a batch was not sent as it was read, or something was held.
    """

    def __init__(
        self,
        pool: ConnectionPool[ClientConnection],
        buckets: Sequence[int],
        request: BatchRequest,
        *,
        after: Sequence[BucketSlice],
    ) -> None:
        self._pool = pool
        self._buckets = buckets
        self._request = request
        self._rows_per_fetch = min(_MAX_ROWS_PER_FETCH, request.max_messages)
        self._changed = threading.Condition()
        #: The slices of each batch that may still be in the table, oldest first.
        self._in_flight: deque[Sequence[BucketSlice]] = deque([after])
        self._ready: FetchedRows | None = None
        self._is_stopped = False
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="outbox prefetch", daemon=True)
        self._thread.start()

    def next_batch(self) -> FetchedRows | None:
        """Wait for the next batch and return it; None if there is none, or it could not be read."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready is not None or self._is_over)
            batch, self._ready = self._ready, None
            self._changed.notify_all()
            return batch

    def mark_deleted(self) -> None:
        """Forget the oldest batch, which is no longer in the table."""
        with self._changed:
            self._in_flight.popleft()

    def stop(self) -> None:
        """Discard what was read."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait until its connection is free, but not for a network that is silent; call `stop` before."""
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        try:
            with self._pool.connection() as connection:
                while self._read_backlog(connection):
                    pass
        except psycopg.Error as error:
            # The relay's own connection shows what that means.
            log.warning("The next messages of the outbox could not be read ahead: %s", one_line(error))
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()

    def _read_backlog(self, connection: Connection) -> bool:
        """Publish the batches of one look at the table; return whether another look is worth it."""
        with self._changed:
            # Before the look: what is deleted in between is left out without need, which does no harm.
            in_flight = [part for batch in self._in_flight for part in batch]
        with open_backlog(
            connection, self._buckets, self._request, in_flight=in_flight, rows_per_fetch=self._rows_per_fetch
        ) as backlog:
            if backlog is None:
                return False
            deadline, late = time.monotonic() + _MAX_CURSOR_SECONDS, None
            while late is None and not self._is_stopped and time.monotonic() < deadline:
                batch = backlog.next_batch()
                if batch is None:
                    break
                with self._changed:
                    self._in_flight.append(batch.slices)
                late = None if self._publish(batch, deadline) else batch
        if late is not None:
            # No transaction is held open while Kafka is waited for.
            self._publish(late, None)
        self._rows_per_fetch = self._next_rows_per_fetch(backlog)
        has_more = (
            backlog.stopped_at_oversized
            or not backlog.is_exhausted
            or 2 * backlog.rows_read >= self._request.max_messages
        )
        return has_more and not self._is_stopped

    def _publish(self, batch: FetchedRows, deadline: float | None) -> bool:
        """Return whether the batch before it was taken in time."""
        with self._changed:
            seconds = None if deadline is None else deadline - time.monotonic()
            if not self._changed.wait_for(lambda: self._ready is None or self._is_stopped, seconds):
                return False
            if not self._is_stopped:
                self._ready = batch
                self._changed.notify_all()
            return True

    def _next_rows_per_fetch(self, backlog: BacklogCursor) -> int:
        if backlog.stopped_at_oversized:
            return max(1, self._rows_per_fetch // _FETCH_FACTOR)
        return min(_MAX_ROWS_PER_FETCH, self._request.max_messages, self._rows_per_fetch * _FETCH_FACTOR)
