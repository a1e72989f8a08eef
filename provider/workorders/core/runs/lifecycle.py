"""The life of claimed runs: start, steps, finish, retry, release, recover; by sets, because a worker has many.

Whatever changes the runs of a worker raises an `OwnershipLostError` if the worker has no row any more.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from workorders.core import workers
from workorders.core.ids import run_ids
from workorders.core.items import Message
from workorders.core.json_bytes import plain
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.workflows import Workflow

_QUERIES = load_queries("workorders.core.runs", "sql/lifecycle.sql")
_FINISH: Final = load_queries("workorders.core.runs", "sql/finish_and_retry.sql")["finish"]

_LOST: Final = (
    "The worker that owned it sent no heartbeat any more. Whether its function was called, and how far it came, is not "
    "known."
)

StoredSteps = tuple[int, Sequence[Sequence[str]]]
"""The generation of a run, and name and JSON text of each step that earlier attempts have stored in it."""

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
    """When it began by the worker's clock; if not given, what `start` has recorded."""
    finished_at: datetime | None = None
    """When it ended by the worker's clock; now if not given."""
    may_retry: bool = True
    """False if another attempt could not succeed, or would repeat a call that succeeded."""
    messages: tuple[Message, ...] = ()
    """What it published; the caller of `finish` enqueues them."""
    ordering_key: int | None = None
    """The ordering key of the run; no result is stored before an earlier one with the same."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """How the runs of workers whose heartbeat stopped were recovered."""

    available: int = 0
    """Runs that had not started and can be claimed again."""
    retried: int = 0
    """Runs that are lost and whose work order waits for another attempt."""
    lost: int = 0
    """Runs that are lost for good."""

    def __str__(self) -> str:
        """Return the numbers as one sentence."""
        return (
            f"Workers sent no heartbeat any more: {self.available:,} runs had not begun and wait again, "
            f"{self.retried:,} are retried, {self.lost:,} are lost."
        )


@dataclass(frozen=True, slots=True)
class FinishedStep:
    """A step that a run has finished, or whose result it got from its own database."""

    run_id: UUID
    """The run that reports it."""
    name: str
    result: bytes
    finished_at: datetime
    made_by: UUID
    """The run that called the function: that one, or an earlier attempt."""
    committed_elsewhere: bool
    """Whether `context.transaction` made it; otherwise the run waits until it is stored."""


def start(
    connection: Connection, worker_id: UUID, run_ids: Collection[UUID], *, begin_later: bool = False
) -> frozenset[UUID]:
    """Mark runs of a worker as started, and return those that it still owns; it must not execute the others.

    If they `begin_later`, at any time from now on, only their ends tell when they began.
    """
    workers.lock_worker(connection, worker_id)
    given = {"worker_id": worker_id, "ids": list(run_ids), "begin_later": begin_later}
    rows = connection.execute(_QUERIES["start"], given)
    return frozenset(row[0] for row in rows)


def finish(connection: Connection, worker_id: UUID, results: Sequence[RunResult]) -> dict[UUID, bool]:
    """Store how runs of a worker ended, with output, log and the work order's state, in the caller's transaction.

    Return the runs that are finished now, and whether the work order of each waits for another attempt. The worker no
    longer owns the others, and nothing of them was written.

    A run that did not succeed is retried by its workflow's policy: a new run that is available after a delay. The
    later runs with its ordering key then wait, too, and the worker loses them. So a worker stores the end of a run that
    did not succeed, and asks which runs it still owns, before it begins the next one with that ordering key.
    """
    workers.lock_worker(connection, worker_id)
    retry_ids = run_ids(len(results))
    rows = connection.execute(
        _FINISH,
        {
            "worker_id": worker_id,
            "ids": [result.run_id for result in results],
            "states": [result.state for result in results],
            "error_types": [result.error_type and plain(result.error_type) for result in results],
            "errors": [result.error and plain(result.error) for result in results],
            "started": [result.started_at for result in results],
            "finished": [result.finished_at for result in results],
            "may_retry": [result.may_retry for result in results],
            "retry_ids": retry_ids,
            "outputs": [result.output.decode() if result.output is not None else None for result in results],
            "logs": [plain(result.log) for result in results],
            "truncated": [result.log_truncated for result in results],
        },
    ).fetchall()
    return dict(rows)


def release(connection: Connection, worker_id: UUID, run_ids: Collection[UUID]) -> int:
    """Release unfinished runs of a worker, as if they had never been claimed; return how many.

    For a worker that stops before it began them: a run that began and is released would be executed twice.
    """
    workers.lock_worker(connection, worker_id)
    return connection.execute(_QUERIES["release"], {"worker_id": worker_id, "ids": list(run_ids)}).rowcount


def store_steps(connection: Connection, worker_id: UUID, steps: Sequence[FinishedStep]) -> frozenset[UUID]:
    """Store steps in one statement, and return those of their runs that the worker still owns.

    Of the others nothing is stored.
    """
    rows = connection.execute(
        _QUERIES["store_steps"],
        {
            "worker_id": worker_id,
            "ids": [step.run_id for step in steps],
            "names": [step.name for step in steps],
            "results": [step.result.decode() for step in steps],
            "finished": [step.finished_at for step in steps],
            "made_by": [step.made_by for step in steps],
            "elsewhere": [step.committed_elsewhere for step in steps],
        },
    ).fetchall()
    if not rows:
        raise workers.lost(worker_id)
    return frozenset(run_id for (run_id,) in rows if run_id)


def find_steps(connection: Connection, run_ids: Collection[UUID]) -> dict[UUID, StoredSteps]:
    """Return of each run what earlier attempts have stored."""
    rows = connection.execute(_QUERIES["find_steps"], {"ids": list(run_ids)})
    return {run_id: (generation, results) for run_id, generation, results in rows}


def find_owned(connection: Connection, workflow_id: int, worker_id: UUID) -> dict[UUID, bool]:
    """Return the unfinished runs of a worker, and whether each was started."""
    workers.lock_worker(connection, worker_id)
    rows = connection.execute(_QUERIES["owned"], {"workflow_id": workflow_id, "worker_id": worker_id})
    return {row[0]: row[1] for row in rows}


def recover_lost(connection: Connection, workflow: Workflow | None = None) -> Recovered:
    """Recover the runs of workers that sent no heartbeat in their grace period, each in one transaction.

    Runs that had not started are available again. Runs that had are `lost`, and are retried by the workflow's policy.
    Whatever the worker still does with them changes nothing, because its row is gone.
    """
    available = retried = lost = 0
    while True:
        with connection.transaction():
            expired = workers.lock_expired_worker(connection, workflow)
            if expired is None:
                return Recovered(available, retried, lost)
            worker_id, workflow_id = expired
            # No more than a worker has in its queue and its processes, so one transaction can take them all.
            owned = find_owned(connection, workflow_id, worker_id)
            available += release(connection, worker_id, [id_ for id_, is_started in owned.items() if not is_started])
            begun = [id_ for id_, is_started in owned.items() if is_started]
            finished = finish(
                connection,
                worker_id,
                [RunResult(run_id=run_id, state="lost", error_type="Lost", error=_LOST) for run_id in begun],
            )
            retried += sum(finished.values())
            lost += len(finished) - sum(finished.values())
            workers.remove_worker(connection, worker_id)
