"""Lists runs and the steps that work orders have finished, and returns how runs and work orders ended. Reads only."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from workorders.core import workflows
from workorders.core.exceptions import UnknownNameError
from workorders.core.history.work_orders import ALL, get_work_order
from workorders.core.postgres.connection import Connection, find_row, list_rows
from workorders.core.postgres.named_queries import load_queries
from workorders.core.states import OWNER_GONE

_QUERIES = load_queries("workorders.core.history", "sql/runs.sql")

_UNKNOWN_END: Final = frozenset({"crashed", "killed", "lost"})
"""States of runs that ended at any point of their function."""
_MAY_MISS: Final = (
    "A transaction that committed just before the end may be missing here; it is not executed again, because its own "
    "database knows it."
)
"""A worker stores the step of a transaction up to a second after its COMMIT, which another database has made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One attempt at a work order."""

    id: UUID
    work_order_id: UUID
    workflow: str
    attempt: int
    generation: int
    """Runs of one generation share the results of their steps; a rerun from the start begins the next one."""
    state: str
    is_owner_gone: bool
    """Whether its worker sent no heartbeat in its grace period, so that the run is to be recovered."""
    created_at: datetime
    not_before: datetime
    """When it is due, while it is available."""
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error_type: str | None
    error: str | None
    actor: str | None
    """Who requested this run, or cancelled it; None for the first run and for automatic retries."""
    reason: str | None

    @property
    def shown_state(self) -> str:
        """Return the state for people: a run without an owner is not at work, whatever its row contains."""
        return OWNER_GONE if self.is_owner_gone else self.state


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetails(RunRow):
    """A run with all its columns, its output and its log."""

    expires_at: datetime | None
    """When it is recovered unless its worker sends a heartbeat before; None also for a Dag run."""
    worker_id: UUID | None
    retry: int
    output: str | None
    """JSON text."""
    output_bytes: int | None
    """Of all the output; the text may be its beginning."""
    log: str | None
    log_truncated: bool
    has_earlier_log: bool
    """Whether the log has more than its end that is here."""


def list_runs(
    connection: Connection,
    *,
    workflow: str | None = None,
    state: str | None = None,
    work_order: UUID | None = None,
    before: UUID | None = None,
    limit: int | None = 20,
) -> list[RunRow]:
    """Return runs that have a row, newest first; a work order that waits for its first run has none yet."""
    arguments = {
        "workflow_id": None if workflow is None else workflows.find_id(connection, workflow),
        "state": state,
        "work_order_id": work_order,
        "before": before,
        "limit": limit,
    }
    found = list_rows(connection, RunRow, _QUERIES["runs"], arguments)
    if work_order is not None and not found:
        get_work_order(connection, work_order)
    return found


def runs_of(connection: Connection, work_order_id: UUID) -> list[RunRow]:
    """Return the runs of a work order, the first attempt first."""
    return sorted(list_runs(connection, work_order=work_order_id, limit=None), key=lambda run: run.attempt)


def get_run(connection: Connection, id_: UUID, *, max_characters: int = ALL) -> RunDetails:
    """Return one run, with no more than that many characters of its output and of its log."""
    found = find_row(connection, RunDetails, _QUERIES["run"], {"id": id_, "max_characters": max_characters})
    if found is None:
        raise UnknownNameError(f"There is no run {id_} in this database; see `workorders runs list`.")
    return found


@dataclass(frozen=True, slots=True)
class WorkOrderOutcome:
    """The end of a work order."""

    id: UUID
    state: str
    error_type: str | None
    """Type of the error; for a rejected work order the code of its rejection."""
    error: str | None
    output: str | None
    """What the newest run returned, as JSON text; None if it returned nothing, or if the output was wiped."""


def find_outcome(connection: Connection, id_: UUID) -> WorkOrderOutcome | None:
    """Return how a work order ended; None if it has not ended, or was deleted."""
    return find_row(connection, WorkOrderOutcome, _QUERIES["outcome"], {"id": id_})


def list_last_runs(connection: Connection, ids: Collection[UUID], *, limit: int = 5) -> dict[UUID, list[RunRow]]:
    """Return the last runs of some work orders, the newest last; no entry for one without a run."""
    found: dict[UUID, list[RunRow]] = {}
    for run in list_rows(connection, RunRow, _QUERIES["last_runs"], {"ids": list(ids), "limit": limit}):
        found.setdefault(run.work_order_id, []).append(run)
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """A step that a work order has finished."""

    name: str
    generation: int
    run_id: UUID
    """The run that executed it."""
    attempt: int
    finished_at: datetime
    committed_elsewhere: bool
    """Whether it is a transaction: its rows and its result committed together, in a database of the user."""
    result: str
    result_bytes: int
    """Of all the result."""

    @property
    def kind(self) -> str:
        """Return what the function called: `context.transaction` or `context.step`."""
        return "transaction" if self.committed_elsewhere else "step"


def list_steps(
    connection: Connection, work_order_id: UUID, *, until: RunRow | None = None, max_characters: int = ALL
) -> Sequence[Step]:
    """Return the steps that a work order has finished, by generation and time, with so much of each result.

    `until` one of its runs: those of its generation that were finished when it ended, or by now.
    """
    arguments = {
        "work_order_id": work_order_id,
        "generation": until and until.generation,
        "attempt": until and until.attempt,
        "max_characters": max_characters,
    }
    return list_rows(connection, Step, _QUERIES["steps"], arguments)


def describe_end(state: str, finished: Sequence[Step]) -> str | None:
    """Return what a run that ended at an unknown point had finished, and what a rerun does; None for any other run."""
    if state not in _UNKNOWN_END:
        return None
    if not finished:
        return (
            f"No finished step was recorded before this run ended as {state}. A retry or a rerun begins at the start. "
            f"{_MAY_MISS}"
        )
    steps = "One step was" if len(finished) == 1 else f"{len(finished):,} steps were"
    return (
        f"{steps} finished when this run ended as {state}; the last one is {finished[-1].name}. A retry or a rerun "
        f"continues there: it gets their results, and does not execute them again. A step that was being executed is "
        f"executed again. {_MAY_MISS}"
    )
