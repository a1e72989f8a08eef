"""The life of claimed runs: start, heartbeat, finish, retry, release, recover; by sets, because a worker has many."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from workorders.core.ids import run_ids
from workorders.core.items import Message
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.workflows import Workflow

_QUERIES = load_queries("workorders.core.runs", "sql/lifecycle.sql")

HEARTBEAT_SECONDS: Final = 10.0
"""Seconds between two heartbeats of a worker."""
GRACE_SECONDS: Final = 60.0
"""Seconds without a heartbeat after which a worker's runs are recovered: five heartbeats may be late before that."""

_MAX_RECOVERED: Final = 1_000
_LOST: Final = "The worker that executed it sent no heartbeat any more; how far the run came is not known."

FinalState = Literal["success", "failed", "crashed", "cancelled", "killed", "lost", "exception"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended."""

    run_id: UUID
    state: FinalState
    output: bytes | None = None
    """JSON that the run returned; None if it returned nothing."""
    log: str = ""
    log_truncated: bool = False
    error_type: str | None = None
    error: str | None = None
    started_at: datetime | None = None
    """When it began by the worker's clock; the time at which it was marked as started if not given."""
    finished_at: datetime | None = None
    """When it ended by the worker's clock; now if not given."""
    may_retry: bool = True
    """False if another attempt could not succeed, or would repeat a call that succeeded."""
    messages: tuple[Message, ...] = ()
    """What it published; the caller of `finish` enqueues them."""
    ordering_key: int | None = None
    """The ordering key of the run; no result is stored before an earlier one with the same."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What became of the results of a worker."""

    run_ids: frozenset[UUID]
    """Runs that are finished now. The worker no longer owns the others, and nothing of them was written."""
    retried: frozenset[UUID]
    """Those of them whose work order waits for another attempt."""
    released: frozenset[UUID]
    """Runs that the worker must not execute any more: an earlier run with their ordering key is retried first."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What became of the runs of workers whose heartbeat stopped."""

    available: int = 0
    """Runs that had not started and can be claimed again."""
    retried: int = 0
    """Runs that are lost and whose work order waits for another attempt."""
    lost: int = 0
    """Runs that are lost for good."""


def start(connection: Connection, worker_id: UUID, run_ids: Collection[UUID]) -> frozenset[UUID]:
    """Mark runs of a worker as started, and return those that it still owns; it must not execute the others."""
    rows = connection.execute(_QUERIES["start"], {"worker_id": worker_id, "ids": list(run_ids)})
    return frozenset(row[0] for row in rows)


def heartbeat(connection: Connection, worker_id: UUID) -> int:
    """Record that a worker is alive, and return how many unfinished runs it owns."""
    return connection.execute(_QUERIES["heartbeat"], {"worker_id": worker_id}).rowcount


def finish(connection: Connection, worker_id: UUID, results: Sequence[RunResult], *, is_alive: bool = True) -> Finished:
    """Store how runs of a worker ended, with output, log and the work order's state, in the caller's transaction.

    A run that did not succeed is retried by its workflow's policy: a new run that is available after a delay. The
    later runs with its ordering key then wait, too, and the worker loses them. So a worker stores the end of a run that
    did not succeed before it begins the next one with that ordering key. A lost worker (not `is_alive`) may have begun
    them, so this leaves them to it.
    """
    retry_ids = run_ids(len(results))
    rows = connection.execute(
        _QUERIES["finish"],
        {
            "worker_id": worker_id,
            "is_alive": is_alive,
            "ids": [result.run_id for result in results],
            "states": [result.state for result in results],
            "error_types": [_text(result.error_type) for result in results],
            "errors": [_text(result.error) for result in results],
            "started": [result.started_at for result in results],
            "finished": [result.finished_at for result in results],
            "may_retry": [result.may_retry for result in results],
            "retry_ids": retry_ids,
            "outputs": [result.output.decode() if result.output is not None else None for result in results],
            "logs": [_text(result.log) for result in results],
            "truncated": [result.log_truncated for result in results],
        },
    ).fetchall()
    became: dict[str, set[UUID]] = {"finished": set(), "retried": set(), "released": set()}
    for what, run_id in rows:
        became[what].add(run_id)
    retried = frozenset(became["retried"])
    return Finished(retried | became["finished"], retried, frozenset(became["released"]))


def release(connection: Connection, worker_id: UUID, run_ids: Collection[UUID]) -> int:
    """Release unfinished runs of a worker, as if they had never been claimed; return how many.

    For a worker that stops before it began them: a run that began and is released would be executed twice.
    """
    return connection.execute(_QUERIES["release"], {"worker_id": worker_id, "ids": list(run_ids)}).rowcount


def recover_lost(connection: Connection, workflow: Workflow, *, grace_seconds: float = GRACE_SECONDS) -> Recovered:
    """Recover runs of a workflow whose worker sent no heartbeat for longer than the grace period.

    Runs that had not started are available again. Runs that had are `lost`, and are retried by the workflow's policy.
    Whatever the worker still writes afterwards changes nothing. The caller commits.
    """
    arguments = {"workflow_id": workflow.id, "grace_seconds": grace_seconds, "limit": _MAX_RECOVERED}
    silent = connection.execute(_QUERIES["lock_silent"], arguments).fetchall()
    available = retried = lost = 0
    for worker_id in {worker_id for worker_id, _, _ in silent}:
        owned = [(run_id, is_started) for owner, run_id, is_started in silent if owner == worker_id]
        available += release(connection, worker_id, [run_id for run_id, is_started in owned if not is_started])
        results = [
            RunResult(run_id=run_id, state="lost", error_type="Lost", error=_LOST)
            for run_id, is_started in owned
            if is_started
        ]
        finished = finish(connection, worker_id, results, is_alive=False)
        retried += len(finished.retried)
        lost += len(finished.run_ids - finished.retried)
    return Recovered(available, retried, lost)


def _text(value: str | None) -> str | None:
    """Return text that Postgres can store: without NUL and without half of a surrogate pair."""
    if value is None:
        return None
    return value.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
