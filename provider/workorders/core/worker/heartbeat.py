"""Records that a worker is alive, from a thread and a connection of its own."""

import threading
import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

import psycopg

from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import Connection, connect
from workorders.core.runs import lifecycle

_SILENT_SHARE: Final = 0.8


class Heartbeat:
    """Sends heartbeats while it is entered.

    Args:
        database_url: the work orders' database.
        worker_id: the worker.
        seconds: between two heartbeats.
        grace_seconds: time without a heartbeat after which other workers may take the runs.
        log: receives a line for each failure.
    """

    def __init__(
        self,
        database_url: str,
        worker_id: UUID,
        *,
        seconds: float = lifecycle.HEARTBEAT_SECONDS,
        grace_seconds: float = lifecycle.GRACE_SECONDS,
        log: Callable[[str], None],
    ) -> None:
        self._url = database_url
        self._worker_id = worker_id
        self._seconds = seconds
        self._grace_seconds = grace_seconds
        self._log = log
        self._end = threading.Event()
        self._last = time.monotonic()
        #: Set if the last heartbeat found no unfinished run of the worker, which must then check what it executes.
        self.found_none = threading.Event()
        self._thread = threading.Thread(target=self._beat_until_end, name="workorders heartbeat", daemon=True)

    def __enter__(self) -> "Heartbeat":
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the thread."""
        self._end.set()
        self._thread.join(self._seconds)

    @property
    def silent(self) -> bool:
        """Whether the last heartbeat is so old that other workers may soon take the runs."""
        return time.monotonic() - self._last > _SILENT_SHARE * self._grace_seconds

    def _beat_until_end(self) -> None:
        connection: Connection | None = None
        while not self._end.wait(self._seconds):
            try:
                if connection is None or connection.closed:
                    connection = connect(self._url, autocommit=True, application_name="workorders heartbeat")
                begun = time.monotonic()
                if lifecycle.heartbeat(connection, self._worker_id) == 0:
                    self.found_none.set()
                self._last = begun
            except psycopg.Error as error:
                self._log(f"The heartbeat of this worker failed and is retried: {one_line(error)}")
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()
