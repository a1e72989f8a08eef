"""The rows of workers: who is alive and may own runs. A worker without its row owns nothing.

Whatever changes runs of a worker locks its row first, and raises an `OwnershipLostError` if there is none. So recovery,
which deletes the row, happens before or after that change.
"""

from typing import Final
from uuid import UUID, uuid4

from workorders.core.exceptions import OwnershipLostError
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.workflows import Workflow

_QUERIES = load_queries("workorders.core", "sql/workers.sql")

HEARTBEAT_SECONDS: Final = 10.0
"""Seconds between two heartbeats of a worker."""
GRACE_SECONDS: Final = 60.0
"""Seconds after a heartbeat at which a worker's runs are recovered: five heartbeats may be late before that."""


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
