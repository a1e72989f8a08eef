"""Reads what comes next while batches are being sent: in a thread and a connection of its own, a batch ahead."""

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

import psycopg
from psycopg_pool import ConnectionPool

from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import Connection
from workorders.outbox.store.backlog_cursor import Window, opened
from workorders.outbox.store.claims import Batch, Wanted
from workorders.outbox.store.rows import Part, Reading

log: Final = logging.getLogger(__name__)

WINDOW_SECONDS: Final = 1.0
"""So long a look at the table lasts at most: what is new in another bucket waits no longer, nor do dead rows."""
_JOIN_SECONDS: Final = 5.0
_ROWS_A_FETCH: Final = 1000
_FEWER: Final = 30
"""With large messages, so many times fewer rows come at a time."""


class Ahead:
    """What was read behind a batch that is being sent; over when so little was left that looking anew is better.

    One batch lies ready, and the one after it is being read. Whoever sends them has to say which of them were deleted,
    and must stop it when a batch was not sent as it was read, or something was held.
    """

    def __init__(
        self, pool: ConnectionPool[Connection], buckets: Sequence[int], wanted: Wanted, *, behind: Batch
    ) -> None:
        self._pool = pool
        self._buckets = buckets
        self._wanted = wanted
        self._rows_a_fetch = min(_ROWS_A_FETCH, wanted.messages)
        self._changed = threading.Condition()
        #: The parts of each batch that may still be in the table, oldest first.
        self._under_way: deque[Sequence[Part]] = deque([behind.parts])
        self._ready: Reading | None = None
        self._is_stopped = False
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="outbox ahead", daemon=True)
        self._thread.start()

    def take(self) -> Reading | None:
        """Wait for the next batch and return it; None when there is none, or it could not be read."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready is not None or self._is_over)
            reading, self._ready = self._ready, None
            self._changed.notify_all()
            return reading

    def deleted(self) -> None:
        """Note that the oldest batch is no longer in the table."""
        with self._changed:
            self._under_way.popleft()

    def stop(self) -> None:
        """Forget what was read."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait until its connection is free, but not for a network that is silent; it has to be stopped before."""
        self._thread.join(_JOIN_SECONDS)

    def _run(self) -> None:
        try:
            with self._pool.connection() as connection:
                while self._read_window(connection):
                    pass
        except psycopg.Error as error:
            # The sender's own connection tells what that means.
            log.warning("What comes next in the outbox could not be read ahead: %s", one_line(error))
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()

    def _read_window(self, connection: Connection) -> bool:
        """Offer the batches of one look at the table; say whether another look is worth it."""
        with self._changed:
            # Before the look: what is deleted in between is left out without need, which does no harm.
            under_way = [part for parts in self._under_way for part in parts]
        with opened(
            connection,
            self._buckets,
            self._wanted,
            under_way=under_way,
            rows_a_fetch=self._rows_a_fetch,
        ) as window:
            if window is None:
                return False
            late = self._offer_all(window, time.monotonic() + WINDOW_SECONDS)
        if late is not None:
            # No transaction is held open while Kafka is waited for.
            self._offer(late, None)
        self._rows_a_fetch = self._next_rows_a_fetch(window)
        is_much = window.met_large or not window.is_over or 2 * window.rows_read >= self._wanted.messages
        return is_much and not self._is_stopped

    def _offer_all(self, window: Window, deadline: float) -> Reading | None:
        """Offer one batch after the other; return one that nobody took in time."""
        while not self._is_stopped and time.monotonic() < deadline:
            reading = window.batch()
            if reading is None:
                break
            with self._changed:
                self._under_way.append(reading.parts)
            if not self._offer(reading, deadline):
                return reading
        return None

    def _offer(self, reading: Reading, deadline: float | None) -> bool:
        """Say whether there was room for it in time."""
        with self._changed:
            seconds = None if deadline is None else deadline - time.monotonic()
            if not self._changed.wait_for(lambda: self._ready is None or self._is_stopped, seconds):
                return False
            if not self._is_stopped:
                self._ready = reading
                self._changed.notify_all()
            return True

    def _next_rows_a_fetch(self, window: Window) -> int:
        if window.met_large:
            return max(1, self._rows_a_fetch // _FEWER)
        return min(_ROWS_A_FETCH, self._wanted.messages, self._rows_a_fetch * _FEWER)
