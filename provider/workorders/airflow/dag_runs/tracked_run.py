"""One run whose work a DAG run does, and how it ends."""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import FinalState, PreviousAttempts, RunResult

_ENDS: Final[dict[str, FinalState]] = {"success": "success", "failed": "failed"}


@dataclass(frozen=True, slots=True)
class Followed:
    """A run from its begin on."""

    run: ClaimedRun
    earlier: PreviousAttempts
    """The attempts before it."""
    dag_id: str
    timeout_seconds: float
    started_at: datetime
    deadline: float
    """By the monotonic clock."""
    dag_run_id: str | None = None
    """The DAG run whose end is the end of the run; None until there is one."""
    waits_for: str | None = None
    """The DAG run of an earlier attempt that must end before this run gets its own."""

    @classmethod
    def begun(cls, run: ClaimedRun, earlier: PreviousAttempts, dag_id: str, timeout_seconds: float) -> "Followed":
        """Return a run that begins now."""
        return cls(run, earlier, dag_id, timeout_seconds, datetime.now(UTC), time.monotonic() + timeout_seconds)

    def by(self, dag_run_id: str) -> "Followed":
        """Return the run with the DAG run that does its work."""
        return replace(self, dag_run_id=dag_run_id)

    def waiting_for(self, dag_run_id: str) -> "Followed | RunResult":
        """Return the run while a DAG run of an earlier attempt goes on, or its end when that takes too long."""
        if self.is_late:
            return self.ended(
                "killed",
                "TimeoutError",
                f"The run {dag_run_id} of DAG {self.dag_id}, of an earlier attempt, still goes on after "
                f"timeout_seconds ({self.timeout_seconds:g}), so no other was started beside it. Nothing ends it, "
                "unless its DAG has a dagrun_timeout.",
            )
        return replace(self, waits_for=dag_run_id)

    def end(self, state: str | None) -> RunResult | None:
        """Return how the run ends when its DAG run is in a state, or is not there (None); None while it goes on."""
        where = f"run {self.dag_run_id} of DAG {self.dag_id}"
        if state is None:
            return self.ended("exception", "DagRunDeleted", f"The {where} is not there any more; somebody deleted it.")
        if state in _ENDS:
            failed = ("DagRunFailed", f"The {where} has failed; its tasks' logs say why.")
            return self.ended(_ENDS[state], *((None, None) if state == "success" else failed))
        if self.is_late:
            return self.ended(
                "killed",
                "TimeoutError",
                f"The {where} lasted longer than timeout_seconds ({self.timeout_seconds:g}); it is followed no more. "
                "A task cannot stop it, so it goes on, unless its DAG has a dagrun_timeout.",
            )
        return None

    def unanswered(self, error: Exception) -> RunResult | None:
        """Return the end of a run about which alone Airflow says nothing, once its time is over; None until then."""
        if not self.is_late:
            return None
        return self.ended(
            "exception",
            "AirflowSilent",
            f"Airflow did not answer within timeout_seconds ({self.timeout_seconds:g}) what was asked about this run, "
            f"while it answered for others: {one_line(error)} What DAG {self.dag_id} does for it may go on.",
        )

    def ended_as(self, result: RunResult) -> RunResult:
        """Return an end of the run with its times."""
        return replace(result, started_at=self.started_at, finished_at=datetime.now(UTC))

    def refused(self, error: WorkOrdersError) -> RunResult:
        """Return the end of a run whose input no DAG run can be given."""
        return replace(self.ended("exception", type(error).__name__, one_line(error)), may_retry=False)

    def without_output(self, task_id: str, error: Exception) -> RunResult:
        """Return the end of a run whose DAG run has succeeded, with an output that cannot be kept."""
        text = (
            f"The run {self.dag_run_id} of DAG {self.dag_id} has succeeded, but what its task {task_id} returned "
            f"cannot be kept: {one_line(error)}"
        )
        # Another attempt would repeat what has been done, for the same output.
        return replace(self.ended("failed", type(error).__name__, text), may_retry=False)

    def ended(self, state: FinalState, error_type: str | None = None, error: str | None = None) -> RunResult:
        """Return an end of the run."""
        return self.ended_as(RunResult(run_id=self.run.run_id, state=state, error_type=error_type, error=error))

    @property
    def is_late(self) -> bool:
        """Whether its time is over."""
        return time.monotonic() > self.deadline
