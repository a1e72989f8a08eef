"""Executes bulk jobs: gives work orders another run, or cancels the one that waits; and resumes orphaned jobs."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

import psycopg

from workorders.core.admission import limits
from workorders.core.attribution import Attribution
from workorders.core.bulk import jobs
from workorders.core.bulk.jobs import Job, JobUnavailableError
from workorders.core.bulk.revalidation import revalidate_rejected
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.history import work_orders
from workorders.core.ids import run_ids
from workorders.core.postgres.connection import Connection, is_outage
from workorders.core.postgres.named_queries import load_queries
from workorders.core.states import UNFINISHED

_QUERIES = load_queries("workorders.core.bulk", "sql/jobs.sql")

STEP: Final = 1_000
STARTUP_GRACE: Final = timedelta(seconds=10)
"""A command that creates a job claims it at once; until then the job does not count as orphaned."""
IN_USE: Final = "deleted or in use"
"""The reason for skipping a locked work order: another process claims, finishes or deletes it at this moment."""
_DEADLOCKS: Final = 5


def run_job(
    connection: Connection, job_id: int, *, step: int = STEP, progress: Callable[[Job], None] | None = None
) -> Job:
    """Execute a job to its end, or continue it; each step has its own transaction, and no other one is open.

    Raises:
        JobUnavailableError: another process executes it or took it over, or it had ended before.
        WorkOrdersError: it failed, and its row contains the reason; it can continue later.
        psycopg.Error: the database failed. If the row can be written, the job waits after an outage, and can be claimed
            again; after any other error it has failed.
    """
    worker = uuid4()
    with connection.transaction():
        job = jobs.claim(connection, job_id, worker)
    try:
        while _step(connection, job_id, worker, step):
            if progress is not None:
                progress(_get_job(connection, job_id))
        with connection.transaction():
            jobs.leave_job(connection, job_id, worker, "finished")
    except BaseException as error:
        _record_failure(connection, job, worker, error)
        raise
    return _get_job(connection, job_id)


def _step(connection: Connection, job_id: int, worker: UUID, size: int) -> bool:
    """Do one step; tell whether there may be more to do now, which there is not once a user has cancelled the job."""
    for remaining in reversed(range(_DEADLOCKS)):
        try:
            with connection.transaction():
                job = jobs.lock_owned(connection, job_id, worker)
                if job is None:
                    return False
                reads_inputs = job.kind == "rerun"
                found = work_orders.find_matching(
                    connection, job.filter, after=job.last_id, limit=size, reads_inputs=reads_inputs
                )
                if found.looked_until is None:
                    return False
                done, skipped = _process(connection, job, found.ids)
                jobs.record_progress(connection, job, done, skipped, found.looked_until)
                return True
        except psycopg.errors.DeadlockDetected:
            # A claim that locked the same rows in another order continued; the step was rolled back as a whole.
            if not remaining:
                raise
    return False


def _process(connection: Connection, job: Job, ids: Sequence[UUID]) -> tuple[int, Counter[str]]:
    by = Attribution(job.actor, job.reason, job.account)
    if job.kind == "cancel":
        return cancel_work_orders(connection, ids, by)
    return rerun_work_orders(connection, ids, by, from_start=job.options.get("from_start", False))


def rerun_work_orders(
    connection: Connection, ids: Sequence[UUID], by: Attribution, *, from_start: bool = False
) -> tuple[int, Counter[str]]:
    """Give each work order a new waiting run, before all others, in the caller's transaction.

    Return how many have one, and how many were skipped, by the reason.

    The run continues: it gets the results of the steps that are stored. It begins a new generation, in which every step
    is executed again, if that is requested or the work order has succeeded.

    A work order has at most one unfinished run, so one that waits or runs is skipped. One whose input was erased cannot
    run again. A rejected one is first validated again by the trigger's present definition. If it still is no input, it
    stays rejected, with its present reason. Limits of a workflow count reruns, and neither reject nor delay them.
    """
    limited = limits.lock_counts(connection, ids)
    found = _lock_work_orders(connection, ids)
    skipped = Counter({IN_USE: len(ids) - len(found)})
    ended: dict[UUID, int] = {}
    rejected: list[UUID] = []
    for id_, (workflow_id, state, has_input) in found.items():
        if state in UNFINISHED:
            skipped["not finished"] += 1
        elif not has_input:
            skipped["erased"] += 1
        elif state == "rejected":
            rejected.append(id_)
        else:
            ended[id_] = workflow_id
    accepted = revalidate_rejected(connection, rejected) if rejected else []
    skipped["still rejected or parked"] = len(rejected) - len(accepted)
    for workflow_id, number in Counter(ended.values()).items():
        if workflow_id in limited:
            limits.count(connection, workflow_id, number)
    if again := sorted([*ended, *accepted]):
        requested = {"actor": by.actor, "reason": by.reason, "from_start": from_start}
        connection.execute(_QUERIES["rerun"], {"run_ids": run_ids(len(again)), "ids": again, **requested})
    return len(again), +skipped


def cancel_work_orders(connection: Connection, ids: Sequence[UUID], by: Attribution) -> tuple[int, Counter[str]]:
    """Cancel the waiting runs of these work orders, and skip the others, as `rerun_work_orders` does."""
    states = {id_: state for id_, (_, state, _) in _lock_work_orders(connection, ids).items()}
    unclaimed = [id_ for id_, state in states.items() if state == "pending"]
    requeued = [id_ for id_, state in states.items() if state == "requeued"]
    given = {"unclaimed": unclaimed, "run_ids": run_ids(len(unclaimed)), "requeued": requeued}
    cancelled = connection.execute(_QUERIES["cancel"], {**given, "actor": by.actor, "reason": by.reason}).rowcount
    skipped = Counter({IN_USE: len(ids) - len(states), "not waiting": len(states) - cancelled})
    return cancelled, +skipped


def _lock_work_orders(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, tuple[int, str, bool]]:
    """Lock these work orders, except those that another transaction has locked.

    Return by id the workflow's id, the state, and whether the input still exists.
    """
    rows = connection.execute(_QUERIES["lock_work_orders"], {"ids": list(ids)})
    return {id_: (workflow_id, state, has_input) for id_, workflow_id, state, has_input in rows}


def _record_failure(connection: Connection, job: Job, worker: UUID, error: BaseException) -> None:
    """Record what ended a job, which waits for the next worker after an outage, a lock timeout, or many deadlocks."""
    message = one_line(error) or type(error).__name__
    if not isinstance(error, WorkOrdersError):
        message = f"{type(error).__name__}: {message}"
    # Without the database nothing can be written; the row then shows that its worker has been silent for some time.
    with suppress(psycopg.Error), connection.transaction():
        jobs.leave_job(connection, job.id, worker, "waiting" if is_outage(error) else "failed", message)


def _get_job(connection: Connection, job_id: int) -> Job:
    with connection.transaction():
        return jobs.get_job(connection, job_id)


@dataclass(slots=True)
class ResumeResult:
    """The orphaned jobs after an attempt to resume them."""

    jobs: list[Job] = field(default_factory=list)
    """The jobs as they are now: finished, or cancelled meanwhile."""
    failures: list[str] = field(default_factory=list)
    """A sentence per job that could not continue, which its row contains too. A person must resume a failed job."""


def find_orphaned(connection: Connection) -> list[int]:
    """Return the numbers of the jobs without a worker, the oldest first."""
    arguments = {"beginning": STARTUP_GRACE, "silence": jobs.HEARTBEAT_TIMEOUT}
    return [row[0] for row in connection.execute(_QUERIES["orphaned_jobs"], arguments)]


def resume_orphaned(connection: Connection, *, step: int = STEP) -> ResumeResult:
    """Execute each orphaned job that can continue now.

    If several processes do so at once, each job has one worker, and the other processes skip it.
    """
    with connection.transaction():
        found = find_orphaned(connection)
    result = ResumeResult()
    for job_id in found:
        try:
            result.jobs.append(run_job(connection, job_id, step=step))
        except JobUnavailableError:
            continue
        except WorkOrdersError as error:
            result.failures.append(f"Bulk operation {job_id} failed: {error}")
        except psycopg.Error as error:
            if connection.closed:
                raise
            # The younger jobs can still succeed.
            became = "waits for the next run" if is_outage(error) else "failed"
            result.failures.append(f"Bulk operation {job_id} {became}: {one_line(error)}")
    return result
