"""Returns what each workflow has to do now, and a summary of the newest runs of one. Reads only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from pydantic import TypeAdapter

from workorders.core.ids import first_id
from workorders.core.postgres.connection import Connection, fetch_row, list_rows
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.history", "sql/workload.sql")

MAX_COUNTED: Final = 10_000
"""Counts end here, because an exact count of many millions takes seconds; a greater number is one more than this. A
page with ten such counts has them within a tenth of a second."""
NEWEST_RUNS: Final = 20_000
"""Runs of all workflows that are read, the newest ones; no index leads to those of one workflow or time."""
_MAX_WAITING: Final = 10_000
_MAX_SHOWN: Final = 10
"""Failures of a workflow, and keys with waiting work orders."""
_RATE_SPAN: Final = timedelta(minutes=20)
RECENT: Final = timedelta(hours=24)
"""How long ago a work order was created at most, of those whose failure is counted."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A workflow's work now."""

    workflow: str
    concurrency: int | None
    """Maximum number of runs at the same time; None without a limit."""
    running: int
    """Runs that a worker with a heartbeat has claimed and not finished."""
    pending: int
    """Work orders that wait for their first run, counted up to `MAX_COUNTED` + 1."""
    requeued: int
    """Work orders that wait for a retry or a rerun, counted in the same way."""
    oldest_waiting_at: datetime | None
    """Since when a worker could have claimed the first of them; None if none is due."""
    parked: int
    """Work orders that wait for a missing number of their sequence, counted in the same way."""
    failed: int
    """Work orders of the last 24 hours that did not succeed, counted in the same way."""

    @property
    def waiting(self) -> int:
        """Return how many work orders wait for a run, due or not."""
        return self.pending + self.requeued


@dataclass(frozen=True, slots=True)
class Failure:
    """Runs that failed with the same error."""

    error_type: str | None
    error: str | None
    runs: int
    first_at: datetime
    last_at: datetime


_FAILURES: Final = TypeAdapter(tuple[Failure, ...])
"""Reads failures from JSON, in which times are text."""


@dataclass(frozen=True, slots=True)
class WaitingKey:
    """An ordering key whose work orders wait for one another."""

    ordering_key: int
    work_orders: int
    oldest_at: datetime
    waits_for: UUID | None
    """The work order that the others wait for; None if they wait for a worker."""
    is_running: bool
    """Whether that one runs; otherwise it waits for its retry."""


@dataclass(frozen=True, slots=True)
class RecentRuns:
    """The newest runs of a workflow."""

    runs: int
    since: datetime | None
    """When the first of them was created; None without a run."""
    waited: Sequence[float | None]
    """Percentiles 50, 95, and 99 of the seconds from creation, or from when a retry was due, to the start."""
    took: Sequence[float | None]
    """The same of the seconds from start to end; None if no run tells one."""
    failures: Sequence[Failure]
    """The most frequent first."""
    waiting_keys: Sequence[WaitingKey]
    """The keys with the most waiting work orders first."""


def list_workloads(connection: Connection, now: datetime, *, workflow: str | None = None) -> list[Workload]:
    """Return the work of every workflow, or of one, by name; none if no workflow has that name."""
    wanted = {"workflow": workflow, "max_counted": MAX_COUNTED, "first_id": first_id(now - RECENT)}
    return list_rows(connection, Workload, _QUERIES["workloads"], wanted)


def ended_per_minute(connection: Connection, now: datetime) -> Mapping[str, float]:
    """Return how many runs of each workflow ended per minute; none for a workflow of which none did.

    It is the mean of the last 20 minutes, or of the shorter time that the newest `NEWEST_RUNS` runs cover.
    """
    asked = {"now": now, "since": now - _RATE_SPAN, "newest": NEWEST_RUNS}
    return dict(connection.execute(_QUERIES["ended"], asked).fetchall())


def summarize_runs(connection: Connection, workflow: str) -> RecentRuns:
    """Return the summary of a workflow; an empty one for an unknown name."""
    given = {"workflow": workflow, "newest": NEWEST_RUNS, "limit": _MAX_SHOWN}
    runs, since, waited, took, failed = fetch_row(connection, _QUERIES["summary"], given)
    failures = _FAILURES.validate_python(failed or ())
    keys = {"workflow": workflow, "max_waiting": _MAX_WAITING, "limit": _MAX_SHOWN}
    waiting = list_rows(connection, WaitingKey, _QUERIES["waiting_keys"], keys)
    return RecentRuns(runs, since, waited, took, failures, waiting)
