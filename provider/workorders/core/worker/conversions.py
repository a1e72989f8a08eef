"""Between claimed runs and what their processes are given, and between outcomes and what is written down."""

from typing import Final
from uuid import UUID

from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import RunResult
from workorders.core.worker.exceptions import InputUnreadableError
from workorders.core.worker.model import Job, Outcome, Specification
from workorders.core.worker.result_store import Ended

_WIPED: Final = (
    "InputWiped",
    "The input of this work order was wiped by its workflow's retention, so there is nothing to run.",
)
_UNREADABLE: Final = (
    InputUnreadableError.__name__,
    "The input of this work order is too long as text, so Postgres cannot write it out; the run was not begun. Numbers "
    "such as 1e-9999 make it so; send the message again without them.",
)


def specification(definition: WorkflowDefinition, processes: int) -> Specification:
    """Return how the callable of a workflow is run."""
    return Specification(
        callable=definition.callable or "",
        timeout_seconds=definition.timeout_seconds,
        log_bytes=definition.log_bytes,
        output_bytes=definition.output_bytes,
        carry_headers=definition.carry_headers,
        processes=min(processes, definition.concurrency or processes),
    )


def job(run: ClaimedRun) -> Job:
    """Return a claimed run as its process needs it."""
    return Job(
        run_id=str(run.run_id),
        work_order_id=str(run.work_order_id),
        attempt=run.attempt,
        body=run.body or b"",
        request=run.request,
        trigger=run.trigger or None,
        lane=run.lane,
    )


def result(outcome: Outcome) -> RunResult:
    """Return an outcome as it is written down."""
    return RunResult(
        run_id=UUID(outcome.job.run_id),
        state=outcome.state,
        output=outcome.output,
        log=outcome.log,
        log_truncated=outcome.truncated,
        error_type=outcome.error_type,
        error=outcome.error,
        started_at=outcome.started_at,
        finished_at=outcome.finished_at,
        may_retry=outcome.may_retry,
    )


def without_input(run: ClaimedRun) -> Ended:
    """Return the end of a run whose input is gone, or cannot be read."""
    error_type, error = _UNREADABLE if run.is_unreadable else _WIPED
    return RunResult(run_id=run.run_id, state="exception", error_type=error_type, error=error, may_retry=False), ()
