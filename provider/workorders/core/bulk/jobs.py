"""Bulk jobs: reruns, cancels and exports of all work orders that match a filter, each a row that everybody can see.

A job is worked through in steps, in the order of the work orders' creation. What a step does and how far the job is
then are committed together, so a job goes on after a crash where it stood, and does nothing twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from workorders.core.exceptions import ConfigurationError, WorkOrdersError
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.history.work_orders import UnknownWorkOrderError
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.bulk", "sql/jobs.sql")

IN_USE: Final = "deleted or in use"
"""Why a work order was skipped that could not be locked: somebody claims, finishes or deletes it at this moment."""
KINDS: Final = ("rerun", "cancel", "export")
HEARTBEAT_TIMEOUT: Final = timedelta(minutes=2)
"""Whoever works at a job reports after each step; after this long without a word another one may take it over."""


class UnknownJobError(WorkOrdersError, LookupError):
    """There is no bulk job of that number."""


class JobBusyError(WorkOrdersError):
    """Another process works at the job."""


class NoCapacityError(WorkOrdersError):
    """The limits of a workflow leave no room for the rest of the job, which waits."""


class JobEndedError(WorkOrdersError):
    """The job is over, so it can neither go on nor be cancelled."""


@dataclass(frozen=True, slots=True)
class Job:
    """A bulk job as its row has it."""

    id: int
    kind: str
    wanted: Filter
    options: Mapping[str, Any]
    actor: str
    account: str | None
    """The account that it was asked from; None where nobody knows."""
    reason: str
    state: str
    """waiting, running, finished, failed or cancelled."""
    total: int
    """Work orders that matched when the job was made."""
    done: int
    skipped: Mapping[str, int]
    """How many were left as they are, by reason."""
    last_id: UUID | None
    """The last work order that was looked at."""
    error: str | None
    """Why it failed, or what it waits for."""
    created_at: datetime
    started_at: datetime | None
    heartbeat_at: datetime | None
    finished_at: datetime | None

    @property
    def looked_at(self) -> int:
        """How many work orders the job has come to so far."""
        return self.done + sum(self.skipped.values())

    def __str__(self) -> str:
        """Return the job's progress in a sentence."""
        skipped = "".join(f", {count:,} {reason}" for reason, count in sorted(self.skipped.items()))
        return f"Job {self.id} ({self.kind}) is {self.state}: {self.done:,} of {self.total:,} done{skipped}."


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step did."""

    done: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    waits_for: str | None = None
    """Why the step ended before its last work order, in a sentence; None when it did not."""
    reached: UUID | None = None
    """The last work order that a step came to which ended early; None when it came to none."""


def create_job(
    connection: Connection,
    kind: str,
    wanted: Filter,
    *,
    actor: str,
    reason: str,
    options: Mapping[str, Any] | None = None,
    request_key: str | None = None,
    account: str | None = None,
) -> Job:
    """Count what matches and write the job down, in the caller's transaction; `bulk.runner` works at it.

    Work orders that are created later do not belong to it.

    Args:
        connection: where the caller's transaction is, or begins.
        kind: one of `KINDS`.
        wanted: which work orders.
        actor: who asks for it.
        reason: the reason, which every run that comes of it repeats.
        options: what the kind needs beside the filter.
        request_key: names the request, so that a request made twice makes one job.
        account: the account that asks for it, whatever `actor` says.

    Raises:
        ConfigurationError: there is no reason, or the filter's text holds no word.
        UnknownTriggerError: no trigger has that name.
        UnknownWorkflowError: no workflow has that name.
        UnknownWorkOrderError: the filter names a work order that is not there.
    """
    if not reason.strip():
        raise ConfigurationError(f"A {kind} needs a reason, which is kept with it; nothing was changed; say why.")
    if kind != "export" and wanted == Filter():
        raise ConfigurationError(
            f"A {kind} of every work order there is was asked for, with no filter at all; nothing was changed; name "
            f"one; a since of 1970-01-01 means all."
        )
    known = connection.execute(_QUERIES["find_request"], {"request_key": request_key}).fetchone()
    if known is not None:
        return get_job(connection, known[0])
    wanted = until_now(connection, wanted)
    row = connection.execute(
        _QUERIES["insert_job"],
        {
            "kind": kind,
            "request_key": request_key,
            "filter": Jsonb(wanted.to_json()),
            "options": Jsonb(dict(options or {})),
            "actor": actor,
            "reason": reason,
            "account": account,
            "total": sum(count_matching(connection, wanted).values()),
        },
    ).fetchone()
    if row is None:
        row = connection.execute(_QUERIES["find_request"], {"request_key": request_key}).fetchone()
    if row is None:  # cannot be: the insert met or made the row
        raise LookupError(request_key)
    return get_job(connection, row[0])


def count_matching(connection: Connection, wanted: Filter) -> dict[str, int]:
    """Return how many work orders a job would come to, by state: what a dry run says.

    Raises:
        UnknownWorkOrderError: the filter names a work order that is not there.
    """
    counts = work_orders.count_by_state(connection, wanted)
    if wanted.id is not None and not counts:
        raise UnknownWorkOrderError(
            f"There is no work order {wanted.id} that fits the other filters; nothing was changed; see `workorders "
            f"work-orders list`."
        )
    return counts


def until_now(connection: Connection, wanted: Filter) -> Filter:
    """Return the filter without what is created from now on."""
    row = connection.execute(_QUERIES["now"]).fetchone()
    if row is None:  # cannot be
        raise LookupError("now")
    now: datetime = row[0]
    return replace(wanted, until=now if wanted.until is None else min(now, wanted.until))


def get_job(connection: Connection, job_id: int) -> Job:
    """Return the job of that number.

    Raises:
        UnknownJobError: there is none.
    """
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(_QUERIES["job"], {"id": job_id}).fetchone()
    if row is None:
        raise UnknownJobError(f"There is no bulk job {job_id} in this database; see `workorders jobs list`.")
    return _job(row)


def list_jobs(connection: Connection, *, before: int | None = None, limit: int = 20) -> list[Job]:
    """Return a page of jobs, newest first."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return [_job(row) for row in cursor.execute(_QUERIES["jobs"], {"before": before, "limit": limit})]


def claim(connection: Connection, job_id: int, worker: UUID) -> Job:
    """Make `worker` the one that works at the job.

    Raises:
        UnknownJobError: there is no such job.
        JobEndedError: it was cancelled, or is finished.
        JobBusyError: another one reported less than two minutes ago.
    """
    taken = connection.execute(
        _QUERIES["take_job"], {"id": job_id, "worker": worker, "silence": HEARTBEAT_TIMEOUT}
    ).rowcount
    job = get_job(connection, job_id)
    if taken:
        return job
    if job.state == "running":
        raise JobBusyError(
            f"Another process works at job {job_id}, and reported at {job.heartbeat_at:%H:%M:%S} UTC; nothing was "
            f"changed; look at it with `workorders jobs show {job_id}`, and try again "
            f"{HEARTBEAT_TIMEOUT.seconds // 60} minutes after its last report."
        )
    raise JobEndedError(f"Job {job_id} is {job.state}, so it does not go on; nothing was changed; make a new one.")


def lock_owned(connection: Connection, job_id: int, worker: UUID) -> Job | None:
    """Return the job, locked until the transaction ends; None when this worker is no longer its own."""
    if connection.execute(_QUERIES["lock_job"], {"id": job_id, "worker": worker}).fetchone() is None:
        return None
    return get_job(connection, job_id)


def lock_work_orders(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, tuple[int, str, bool]]:
    """Lock these work orders; skip the ones that another transaction has locked.

    Returns:
        By id: the workflow's id, the state, and whether the input still exists.
    """
    rows = connection.execute(_QUERIES["lock_work_orders"], {"ids": list(ids)})
    return {id_: (workflow_id, state, has_input) for id_, workflow_id, state, has_input in rows}


def record_progress(connection: Connection, job_id: int, outcome: StepResult, last_id: UUID | None) -> None:
    """Write down what a step did, in the step's transaction."""
    connection.execute(
        _QUERIES["move_job"],
        {"id": job_id, "done": outcome.done, "skipped": Jsonb(dict(outcome.skipped)), "last_id": last_id},
    )


def suspend(connection: Connection, job_id: int, worker: UUID, reason: str) -> None:
    """Write down that the job waits, and for what; anybody may take it, now or later."""
    connection.execute(_QUERIES["wait_job"], {"id": job_id, "worker": worker, "reason": reason})


def restart(connection: Connection, job_id: int, worker: UUID) -> None:
    """Forget how far the job was, for a kind that cannot go on in the middle."""
    connection.execute(_QUERIES["begin_again"], {"id": job_id, "worker": worker})


def end_job(connection: Connection, job_id: int, worker: UUID, *, error: str | None = None) -> None:
    """Write down that the job is over, or with an error why it failed."""
    state = "finished" if error is None else "failed"
    connection.execute(_QUERIES["end_job"], {"id": job_id, "worker": worker, "state": state, "error": error})


def cancel_job(connection: Connection, job_id: int) -> None:
    """Let no further step begin; what was done stays done.

    Raises:
        UnknownJobError: there is no such job.
        JobEndedError: it is over already.
    """
    if not connection.execute(_QUERIES["cancel_job"], {"id": job_id}).rowcount:
        job = get_job(connection, job_id)
        raise JobEndedError(f"Job {job_id} is {job.state} already; nothing was changed.")


def _job(row: Mapping[str, Any]) -> Job:
    given = dict(row)
    return Job(wanted=Filter.from_json(given.pop("filter")), **given)
