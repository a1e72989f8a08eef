"""Summarizes the newest runs of a workflow: how they ended, how long they waited and took, and why they failed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from pydantic import TypeAdapter

from workorders.core.postgres.connection import Connection, fetch_row, list_rows
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.history", "sql/run_summary.sql")

NEWEST: Final = 20_000
"""Runs of all workflows that are read, the newest ones; no index leads to those of one workflow or time."""
_MAX_FAILURES: Final = 10
_MAX_KEYS: Final = 10
_MAX_WAITING: Final = 10_000


class Percentiles(NamedTuple):
    """Durations in seconds; None if no run tells one."""

    half: float | None = None
    most: float | None = None
    """95 of 100 are not longer."""
    nearly_all: float | None = None
    """99 of 100 are not longer."""


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
class RunSummary:
    """The newest runs of a workflow."""

    runs: int
    since: datetime | None
    """When the first of them was created; None without a run."""
    waited: Percentiles
    """From creation, or from the time when a retry was due, to the start."""
    took: Percentiles
    failures: Sequence[Failure]
    """The most frequent first."""
    waiting_keys: Sequence[WaitingKey]
    """The keys with the most waiting work orders first."""


def summarize_runs(connection: Connection, workflow: str) -> RunSummary:
    """Return the summary of a workflow; an empty one for an unknown name."""
    given = {"workflow": workflow, "newest": NEWEST, "limit": _MAX_FAILURES}
    runs, since, waited, took, failed = fetch_row(connection, _QUERIES["summary"], given)
    failures = _FAILURES.validate_python(failed or ())
    keys = {"workflow": workflow, "max_waiting": _MAX_WAITING, "limit": _MAX_KEYS}
    waiting = list_rows(connection, WaitingKey, _QUERIES["waiting_keys"], keys)
    return RunSummary(runs, since, Percentiles(*waited or ()), Percentiles(*took or ()), failures, waiting)
