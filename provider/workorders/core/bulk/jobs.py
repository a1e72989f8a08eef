"""Bulk jobs: reruns and cancels of all work orders that match a filter; each job has a row in the database.

A worker executes a job in steps, in the order of the work orders' creation. One transaction commits the work of a step
and the job's progress. So after a crash a job continues at the next step, and does nothing twice.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from workorders.core.attribution import Attribution
from workorders.core.exceptions import ConfigurationError, UnknownNameError, WorkOrdersError
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter, until_now
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.bulk", "sql/jobs.sql")

HEARTBEAT_TIMEOUT: Final = timedelta(minutes=2)
"""A worker reports after each step; after this long without a report another process may take the job over."""


class JobUnavailableError(WorkOrdersError):
    """Another process executes the job, or it has ended, so it can neither continue here nor be cancelled."""


@dataclass(frozen=True, slots=True)
class Job:
    """The row of a bulk job."""

    id: int
    kind: str
    filter: Filter
    options: Mapping[str, Any]
    actor: str
    account: str | None
    """The account that requested it; None if it is unknown."""
    reason: str
    state: str
    """waiting, running, finished, failed or cancelled."""
    total: int
    """Work orders that matched when the job was created."""
    done: int
    skipped: Mapping[str, int]
    last_id: UUID | None
    """The last work order that the job has processed."""
    error: str | None
    """Why it failed or waits."""
    created_at: datetime
    started_at: datetime | None
    heartbeat_at: datetime | None
    finished_at: datetime | None

    @property
    def looked_at(self) -> int:
        """Number of work orders that the job has processed so far."""
        return self.done + sum(self.skipped.values())

    def __str__(self) -> str:
        """Return the job's progress in a sentence."""
        skipped = "".join(f", {count:,} {reason}" for reason, count in sorted(self.skipped.items()))
        return f"Bulk operation {self.id} ({self.kind}) is {self.state}: {self.done:,} of {self.total:,} done{skipped}."


def create_job(
    connection: Connection, kind: str, wanted: Filter, by: Attribution, *, options: Mapping[str, Any] | None = None
) -> Job:
    """Count what matches and create the job, in the caller's transaction; `bulk.runner` executes it.

    Work orders that are created later do not belong to it.
    """
    if not by.reason.strip():
        raise ConfigurationError(f"A {kind} needs a reason, which is recorded; nothing was changed; give one.")
    if wanted == Filter():
        raise ConfigurationError(
            f"A {kind} of all work orders was requested, with no filter at all; nothing was changed; give a filter, or "
            f"select all by a since of 1970-01-01."
        )
    wanted = until_now(connection, wanted)
    row = fetch_row(
        connection,
        _QUERIES["insert_job"],
        {
            "kind": kind,
            "filter": Jsonb(wanted.to_json()),
            "options": Jsonb(dict(options or {})),
            **asdict(by),
            "total": sum(count_matching(connection, wanted).values()),
        },
    )
    return get_job(connection, row[0])


def count_matching(connection: Connection, wanted: Filter) -> dict[str, int]:
    """Return the number of work orders that a job would process, by state, for a dry run."""
    counts = work_orders.count_by_state(connection, wanted)
    if wanted.selected is not None and not counts:
        named = ", ".join(map(str, wanted.selected))
        raise UnknownNameError(
            f"There is no work order {named} that matches the other filters; nothing was changed; see `workorders "
            f"work-orders list`."
        )
    return counts


def get_job(connection: Connection, job_id: int) -> Job:
    """Return the job of that number."""
    found = _jobs(connection, job_id=job_id)
    if not found:
        raise UnknownNameError(f"There is no bulk operation {job_id} in this database; see `workorders bulk list`.")
    return found[0]


def list_jobs(connection: Connection, *, before: int | None = None, limit: int = 20) -> list[Job]:
    """Return a page of jobs, newest first."""
    return _jobs(connection, before=before, limit=limit)


def claim(connection: Connection, job_id: int, worker: UUID) -> Job:
    """Assign the job to `worker`."""
    taken = connection.execute(
        _QUERIES["claim_job"], {"id": job_id, "worker": worker, "silence": HEARTBEAT_TIMEOUT}
    ).rowcount
    job = get_job(connection, job_id)
    if taken:
        return job
    if job.state == "running":
        raise JobUnavailableError(
            f"Another process runs bulk operation {job_id}, and reported at {job.heartbeat_at:%H:%M:%S} UTC; nothing "
            f"was changed; look at it with `workorders bulk show {job_id}`, and try again "
            f"{HEARTBEAT_TIMEOUT.seconds // 60} minutes after its last report."
        )
    raise JobUnavailableError(
        f"Bulk operation {job_id} is {job.state}, so it does not continue; nothing was changed; create a new one."
    )


def lock_owned(connection: Connection, job_id: int, worker: UUID) -> Job | None:
    """Lock the job until the transaction ends, and return it; return None if a user has cancelled it.

    Raises:
        JobUnavailableError: another worker has it now.
    """
    is_owned = connection.execute(_QUERIES["lock_job"], {"id": job_id, "worker": worker}).fetchone() is not None
    job = get_job(connection, job_id)
    if not is_owned and job.state != "cancelled":
        raise JobUnavailableError(
            f"Bulk operation {job_id} was taken over by another process; this one did nothing more."
        )
    return job if is_owned else None


def record_progress(connection: Connection, job: Job, done: int, skipped: Counter[str], last_id: UUID) -> None:
    """Add the result of a step to those of the job, in the step's transaction, which has locked the job."""
    all_skipped = Jsonb(Counter(job.skipped) + skipped)
    progress = {"id": job.id, "done": job.done + done, "skipped": all_skipped, "last_id": last_id}
    connection.execute(_QUERIES["record_progress"], progress)


def leave_job(connection: Connection, job_id: int, worker: UUID, state: str, error: str | None = None) -> None:
    """Store that the job has finished, failed, or waits, and why; any worker may take one that waits."""
    connection.execute(_QUERIES["leave_job"], {"id": job_id, "worker": worker, "state": state, "error": error})


def cancel_job(connection: Connection, job_id: int) -> None:
    """Cancel the job: no further step begins, and the finished steps are kept."""
    if not connection.execute(_QUERIES["cancel_job"], {"id": job_id}).rowcount:
        job = get_job(connection, job_id)
        raise JobUnavailableError(f"Bulk operation {job_id} is {job.state} already; nothing was changed.")


def _jobs(connection: Connection, *, job_id: int | None = None, before: int | None = None, limit: int = 1) -> list[Job]:
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_QUERIES["jobs"], {"id": job_id, "before": before, "limit": limit}).fetchall()
    return [Job(**{**row, "filter": Filter.from_json(row["filter"])}) for row in rows]
