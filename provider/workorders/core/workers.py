"""The rows of workers and their heartbeats: who is alive and may own runs. A worker without its row owns nothing.

Whatever changes runs of a worker locks its row first, and raises an `OwnershipLostError` if there is none. So recovery,
which deletes the row, happens before or after that change.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Final
from uuid import UUID, uuid4

import psycopg

from workorders.core.exceptions import OwnershipLostError, one_line
from workorders.core.postgres.connection import Connection, connect
from workorders.core.postgres.named_queries import load_queries
from workorders.core.workflows import Workflow

_QUERIES = load_queries("workorders.core", "sql/workers.sql")

HEARTBEAT_SECONDS: Final = 10.0
"""Seconds between two heartbeats of a worker."""
GRACE_SECONDS: Final = 60.0
"""Seconds after a heartbeat at which a worker's runs are recovered: five heartbeats may be late before that."""
_SILENT_SHARE: Final = 0.8
_MAX_ANSWER_SECONDS: Final = 10.0
"""A heartbeat that takes longer is sent again on a new connection."""
_LOOK_SECONDS: Final = 1.0


def add_worker(
    connection: Connection,
    workflow: Workflow,
    worker_id: UUID | None = None,
    grace_seconds: float | None = GRACE_SECONDS,
) -> UUID:
    """Add the row of a worker, before its first claim, and return its id: a new one if none is given.

    Without a grace period, it is an owner that sends no heartbeat; if its row exists, it is not changed.
    """
    worker_id = worker_id or uuid4()
    given = {"worker_id": worker_id, "workflow_id": workflow.id, "grace_seconds": grace_seconds}
    connection.execute(_QUERIES["add_worker"], given)
    return worker_id


def lock_worker(connection: Connection, worker_id: UUID) -> None:
    """Keep the runs of a worker from being recovered until the transaction ends. A heartbeat does not wait for this."""
    if connection.execute(_QUERIES["lock_worker"], {"worker_id": worker_id}).fetchone() is None:
        raise lost(worker_id)


def record_heartbeat(connection: Connection, worker_id: UUID, grace_seconds: float = GRACE_SECONDS) -> None:
    """Record that a worker is alive, so that it keeps its runs for another grace period."""
    given = {"worker_id": worker_id, "grace_seconds": grace_seconds}
    if connection.execute(_QUERIES["record_heartbeat"], given).rowcount == 0:
        raise lost(worker_id)


def remove_worker(connection: Connection, worker_id: UUID) -> None:
    """Remove the row of a worker that ends; it stays for recovery if the worker still owns a run."""
    connection.execute(_QUERIES["remove_worker"], {"worker_id": worker_id})


def lock_expired_worker(connection: Connection, workflow: Workflow | None) -> tuple[UUID, int] | None:
    """Lock one worker whose grace period is over, and return its id and that of its workflow.

    None if there is none, or another transaction has each of them locked.
    """
    return connection.execute(_QUERIES["lock_expired_worker"], {"workflow_id": workflow and workflow.id}).fetchone()


def lost(worker_id: UUID) -> OwnershipLostError:
    """Return the error of a worker that owns nothing any more."""
    return OwnershipLostError(
        f"Worker {worker_id} could send no heartbeat for too long, so another worker may own its runs. It stopped and "
        "changed nothing more of them; those that it was executing are recovered as lost."
    )


@dataclass(eq=False)
class Heartbeat:
    """Sends a worker's heartbeats from a separate thread and connection while it is entered.

    It calls `on_loss` from a thread when the worker may own nothing any more; that must not wait for the database.
    """

    database_url: str
    worker_id: UUID
    _: KW_ONLY
    on_loss: Callable[[], None]
    log: Callable[[str], None]
    seconds: float = HEARTBEAT_SECONDS
    grace_seconds: float = GRACE_SECONDS

    def __post_init__(self) -> None:
        self._end = threading.Event()
        self._last = _now()
        # The second thread only reads the clock: a heartbeat may wait for the database, the network, or the log.
        self._threads = [
            threading.Thread(target=self._beat_until_end, name="workorders heartbeat", daemon=True),
            threading.Thread(target=self._watch_until_end, name="workorders ownership", daemon=True),
        ]

    def __enter__(self) -> "Heartbeat":
        self._last = _now()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(self.seconds)

    @property
    def is_lost(self) -> bool:
        """Whether the worker has no row any more, or has been silent for so long that it may soon have none."""
        return self._seconds_left < 0

    @property
    def _seconds_left(self) -> float:
        return _SILENT_SHARE * self.grace_seconds - (_now() - self._last)

    def _watch_until_end(self) -> None:
        # In short waits: after a suspension, the rest of a long one would begin.
        while not self._end.wait(min(max(self._seconds_left, 0.0), _LOOK_SECONDS)):
            if self.is_lost:
                self.on_loss()
                return

    def _beat_until_end(self) -> None:
        connection: Connection | None = None
        while not self._end.wait(self.seconds):
            try:
                if connection is None or connection.closed:
                    connection = connect(
                        self.database_url,
                        autocommit=True,
                        application_name="workorders heartbeat",
                        may_wait=self._may_wait,
                    )
                begun = _now()
                record_heartbeat(connection, self.worker_id, self.grace_seconds)
                self._last = begun
            except OwnershipLostError:
                self._last = -math.inf
                self.on_loss()
                break
            except psycopg.Error as error:
                self.log(f"The heartbeat of this worker failed and is retried: {one_line(error)}")
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def _may_wait(self, waited: float) -> bool:
        return waited < _MAX_ANSWER_SECONDS and not self.is_lost and not self._end.is_set()


def _now() -> float:
    # The other clocks do not count the time for which a machine is suspended, but Postgres does.
    return time.clock_gettime(time.CLOCK_BOOTTIME)
