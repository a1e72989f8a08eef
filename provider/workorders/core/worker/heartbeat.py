"""Records that a worker is alive, from a separate thread and connection, and notices when it may count as dead."""

import math
import threading
import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

import psycopg

from workorders.core import workers
from workorders.core.exceptions import OwnershipLostError, one_line
from workorders.core.postgres.connection import Connection, connect

_SILENT_SHARE: Final = 0.8
_MAX_ANSWER_SECONDS: Final = 10.0
"""A heartbeat that takes longer is sent again on a new connection."""
_LOOK_SECONDS: Final = 1.0
_CLOCK: Final = time.CLOCK_BOOTTIME
"""The other clocks do not count the time for which a machine is suspended, but Postgres does."""


class Heartbeat:
    """Sends heartbeats while it is entered.

    It calls `on_loss` from a thread when the worker may own nothing any more; that must not wait for the database.
    """

    def __init__(
        self,
        database_url: str,
        worker_id: UUID,
        *,
        seconds: float = workers.HEARTBEAT_SECONDS,
        grace_seconds: float = workers.GRACE_SECONDS,
        on_loss: Callable[[], None],
        log: Callable[[str], None],
    ) -> None:
        self._url = database_url
        self._worker_id = worker_id
        self._seconds = seconds
        self._grace_seconds = grace_seconds
        self._max_silence = _SILENT_SHARE * grace_seconds
        self._on_loss = on_loss
        self._log = log
        self._end = threading.Event()
        self._last = _now()
        # The second thread only reads the clock: a heartbeat may wait for the database, the network, or the log.
        self._threads = [
            threading.Thread(target=target, name=name, daemon=True)
            for target, name in (
                (self._beat_until_end, "workorders heartbeat"),
                (self._watch_until_end, "workorders ownership"),
            )
        ]

    def __enter__(self) -> "Heartbeat":
        """Start the threads."""
        self._last = _now()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the threads."""
        self._end.set()
        for thread in self._threads:
            thread.join(self._seconds)

    @property
    def is_lost(self) -> bool:
        """Whether the worker has no row any more, or has been silent for so long that it may soon have none."""
        return self._seconds_left < 0

    @property
    def _seconds_left(self) -> float:
        return self._max_silence - (_now() - self._last)

    def _watch_until_end(self) -> None:
        # In short waits: after a suspension, the rest of a long one would begin.
        while not self._end.wait(min(max(self._seconds_left, 0.0), _LOOK_SECONDS)):
            if self.is_lost:
                self._on_loss()
                return

    def _beat_until_end(self) -> None:
        connection: Connection | None = None
        while not self._end.wait(self._seconds):
            try:
                if connection is None or connection.closed:
                    connection = connect(
                        self._url, autocommit=True, application_name="workorders heartbeat", may_wait=self._may_wait
                    )
                begun = _now()
                workers.record_heartbeat(connection, self._worker_id, self._grace_seconds)
                self._last = begun
            except OwnershipLostError:
                self._last = -math.inf
                self._on_loss()
                break
            except psycopg.Error as error:
                self._log(f"The heartbeat of this worker failed and is retried: {one_line(error)}")
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def _may_wait(self, waited: float) -> bool:
        return waited < _MAX_ANSWER_SECONDS and not self.is_lost and not self._end.is_set()


def _now() -> float:
    return time.clock_gettime(_CLOCK)
