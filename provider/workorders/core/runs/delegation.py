"""Runs whose work happens outside, for example in a Dag run.

They belong to their workflow and to no process, so they have no heartbeat: if a process dies, the next one finds all of
them. The system that does the work reports its state.

A delegated run is `claimed` until its work is known to have been started, and `started` from then on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid5

from workorders.core import workers
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.runs import claiming
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.workflows import Workflow

_QUERIES = load_queries("workorders.core.runs", "sql/delegation.sql")
_OWNERS: Final = UUID("6f1d7c1e-52a0-4f0b-9a55-3c0c7b1f5d0e")


@dataclass(frozen=True, slots=True)
class DelegatedRun:
    """An unfinished run whose work something outside does."""

    run_id: UUID
    is_started: bool
    seconds: float
    """Time since its work was started, or since it was claimed."""
    earlier: Sequence[UUID]
    """The attempts before it, newest first."""


def owner_of(workflow: str) -> UUID:
    """Return the id that owns the delegated runs of a workflow: the same for every process."""
    return uuid5(_OWNERS, workflow)


def claim(connection: Connection, workflow: Workflow, *, limit: int) -> list[ClaimedRun]:
    """Claim up to `limit` runs to delegate them, at most one per ordering key; the caller commits."""
    owner = workers.add_worker(connection, workflow, owner_of(workflow.name), grace_seconds=None)
    return claiming.claim(connection, workflow, limit=limit, worker_id=owner, one_per_ordering_key=True)


def list_delegated(connection: Connection, workflow: Workflow) -> list[DelegatedRun]:
    """Return the unfinished delegated runs of a workflow, oldest first."""
    asked = {"workflow_id": workflow.id, "worker_id": owner_of(workflow.name)}
    return [DelegatedRun(*row) for row in connection.execute(_QUERIES["delegated"], asked)]


def is_delegated(connection: Connection, workflow: Workflow, run_id: UUID) -> bool:
    """Return whether a run still waits for its work to be started; another process may have released or ended it."""
    arguments = {"id": run_id, "worker_id": owner_of(workflow.name)}
    return connection.execute(_QUERIES["is_delegated"], arguments).fetchone() is not None
