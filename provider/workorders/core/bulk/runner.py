"""Works bulk jobs through, whatever their kind."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import accumulate
from pathlib import Path
from typing import Final, Protocol
from uuid import UUID, uuid4

import psycopg

from workorders.core.bulk import jobs
from workorders.core.bulk.cancel import CancelHandler
from workorders.core.bulk.export import ExportHandler
from workorders.core.bulk.jobs import Job, JobBusyError, JobEndedError, StepResult
from workorders.core.bulk.rerun import RerunHandler
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.history import work_orders
from workorders.core.postgres.connection import Connection, is_outage
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.bulk", "sql/runner.sql")

STEP: Final = 1_000
"""Work orders of one transaction."""
STEP_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one transaction as they are stored; a work order that has more is a step of its own. A step of a thousand
large values would take longer than a worker may be silent, and hold the counts of limited workflows all that time."""
STARTUP_GRACE: Final = timedelta(seconds=10)
"""Whoever makes a job to work at it does so at once; until then it is not taken for one that was left."""
_DEADLOCKS: Final = 5


class JobHandler(Protocol):
    """What one kind of job does."""

    sizes: str | None
    """Name of the query of how many bytes a step reads of each work order; None when it reads none of their inputs."""

    def begin(self, connection: Connection, job: Job, worker: UUID) -> None:
        """Make ready, before the first step of this process."""

    def step(self, connection: Connection, job: Job, ids: Sequence[UUID]) -> StepResult:
        """Do what is to be done with some work orders, in the step's transaction."""

    def finish(self) -> None:
        """Complete what all steps made together."""

    def abandon(self) -> None:
        """Leave nothing half done behind."""


_HANDLERS: Final[dict[str, Callable[[], JobHandler]]] = {"rerun": RerunHandler, "cancel": CancelHandler}


def run_job(
    connection: Connection,
    job_id: int,
    *,
    step: int = STEP,
    progress: Callable[[Job], None] | None = None,
    file: Path | None = None,
) -> Job:
    """Work a job through to its end, or on from where it was left.

    Args:
        connection: without an open transaction; each step has its own.
        job_id: number of the job.
        step: work orders of one step.
        progress: called after each step.
        file: where the caller wants an export; other jobs have none.

    Returns:
        The job as it ended: finished, cancelled by somebody meanwhile, or waiting for what its `error` says.

    Raises:
        JobBusyError: another process works at it.
        JobEndedError: it was over before, or another process took it over.
        WorkOrdersError: it failed, and its row says why; it can go on later.
        psycopg.Error: the database failed. Where it can be written down, a rerun or cancel waits after an outage, to be
            taken again; after any other error the job failed.
    """
    worker = uuid4()
    with connection.transaction():
        job = jobs.claim(connection, job_id, worker)
    doing = ExportHandler(file) if job.kind == "export" else _HANDLERS[job.kind]()
    try:
        with connection.transaction():
            doing.begin(connection, job, worker)
        while _step(connection, job_id, worker, doing, step):
            if progress is not None:
                progress(_get_job(connection, job_id))
        if (stopped := _get_job(connection, job_id)).state == "waiting":
            doing.abandon()
            return stopped
        doing.finish()
        with connection.transaction():
            jobs.end_job(connection, job_id, worker)
    except BaseException as error:
        doing.abandon()
        if isinstance(error, _Cancelled):
            return _get_job(connection, job_id)
        _record_failure(connection, job, worker, error)
        raise
    return _get_job(connection, job_id)


class _Cancelled(Exception):  # noqa: N818 - no error: somebody wished it
    """Somebody cancelled the job while it was worked at."""


def _step(connection: Connection, job_id: int, worker: UUID, doing: JobHandler, size: int) -> bool:
    """Do one step; tell whether there may be more to do now."""
    for remaining in reversed(range(_DEADLOCKS)):
        try:
            with connection.transaction():
                job = _require_ownership(connection, job_id, worker)
                found = work_orders.find_matching(connection, job.wanted, after=job.last_id, limit=size)
                if found.looked_until is None:
                    return False
                ids = _bounded(connection, doing, found.ids)
                outcome = doing.step(connection, job, ids) if ids else StepResult()
                if outcome.waits_for is not None:
                    jobs.record_progress(connection, job_id, outcome, outcome.reached or job.last_id)
                    jobs.suspend(connection, job_id, worker, outcome.waits_for)
                    return False
                jobs.record_progress(
                    connection, job_id, outcome, ids[-1] if len(ids) < len(found.ids) else found.looked_until
                )
                return True
        except psycopg.errors.DeadlockDetected:
            # A claim that locked the same rows the other way round went on; the step was rolled back as a whole.
            if not remaining:
                raise
    return False


def _bounded(connection: Connection, doing: JobHandler, ids: Sequence[UUID]) -> Sequence[UUID]:
    """Return the first of the work orders, as many as one step may read."""
    if doing.sizes is None or not ids:
        return ids
    sizes = connection.execute(_QUERIES[doing.sizes], {"ids": list(ids)})
    return ids[: max(1, sum(total <= STEP_BYTES for total in accumulate(size for (size,) in sizes)))]


def _require_ownership(connection: Connection, job_id: int, worker: UUID) -> Job:
    job = jobs.lock_owned(connection, job_id, worker)
    if job is not None:
        return job
    now = jobs.get_job(connection, job_id)
    if now.state == "cancelled":
        raise _Cancelled
    raise JobEndedError(f"Job {job_id} was taken over by another process; this one did nothing more.")


def _record_failure(connection: Connection, job: Job, worker: UUID, error: BaseException) -> None:
    said = one_line(error) or type(error).__name__
    sentence = said if isinstance(error, WorkOrdersError) else f"{type(error).__name__}: {said}"
    # Without the database nothing can be written; the row then shows that nobody has reported for long.
    with suppress(psycopg.Error), connection.transaction():
        if is_outage(error) and job.kind != "export":
            # A lock that was not had in time, or too many deadlocks: it passes, and whoever comes next goes on.
            jobs.suspend(connection, job.id, worker, sentence)
        else:
            jobs.end_job(connection, job.id, worker, error=sentence)


def _get_job(connection: Connection, job_id: int) -> Job:
    with connection.transaction():
        return jobs.get_job(connection, job_id)


@dataclass(slots=True)
class ResumeResult:
    """What became of the jobs that were left."""

    jobs: list[Job] = field(default_factory=list)
    """As they stand now: finished, cancelled meanwhile, or waiting for room again."""
    failures: list[str] = field(default_factory=list)
    """A sentence for each job that could not go on; its row says the same. One that failed is a person's to resume."""


def find_orphaned(connection: Connection) -> list[int]:
    """Return the numbers of the jobs that nobody works at, the oldest first.

    Exports are not among them: their file is a path on the machine of who asked, so they wait for `jobs resume` there.
    """
    arguments = {"beginning": STARTUP_GRACE, "silence": jobs.HEARTBEAT_TIMEOUT}
    return [row[0] for row in connection.execute(_QUERIES["orphaned_jobs"], arguments)]


def resume_orphaned(
    connection: Connection, *, progress: Callable[[Job], None] | None = None, step: int = STEP
) -> ResumeResult:
    """Work through each job that was left, as far as it goes now.

    However many do so at once, each job has one worker: who comes second passes it over.

    Args:
        connection: without an open transaction; each step has its own.
        progress: called after each step.
        step: work orders of one step.

    Raises:
        psycopg.Error: the connection was lost; the jobs stay where they are, to be taken again.
    """
    with connection.transaction():
        found = find_orphaned(connection)
    worked = ResumeResult()
    for job_id in found:
        try:
            worked.jobs.append(run_job(connection, job_id, step=step, progress=progress))
        except (JobBusyError, JobEndedError):
            continue
        except WorkOrdersError as error:
            worked.failures.append(f"Job {job_id} failed: {error}")
        except psycopg.Error as error:
            if connection.closed:
                raise
            # The younger jobs need not fail, or be in somebody's way, as well.
            became = "waits for the next run" if is_outage(error) else "failed"
            worked.failures.append(f"Job {job_id} {became}: {one_line(error)}")
    return worked
