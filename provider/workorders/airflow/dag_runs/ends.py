"""How a run ends whose work a Dag run did."""

from typing import Final
from uuid import UUID

from workorders import dag_ids
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.runs.lifecycle import FinalState, RunResult

_ENDS: Final[dict[str, FinalState]] = {"success": "success", "failed": "failed"}


def max_dag_runs(definition: WorkflowDefinition) -> int:
    """Return how many Dag runs of a workflow may run at the same time."""
    return definition.processes * definition.workers


class RunEnds:
    """Makes the results of one run; it `is_late` if it has lasted longer than the workflow's `timeout`."""

    def __init__(self, definition: WorkflowDefinition, run_id: UUID, *, is_late: bool) -> None:
        self._run_id = run_id
        self._dag_id = definition.dag_id
        self._timeout = f"timeout ({definition.timeout:g} s)"
        self.dag_run_id = dag_ids.run_of(run_id)
        self.is_late = is_late

    def by_state(self, state: str | None) -> RunResult | None:
        """Return the end by the state of the Dag run, or by its absence (None); None while it runs in time."""
        where = f"run {self.dag_run_id} of Dag {self._dag_id}"
        if state is None:
            return self._end(
                "exception",
                "DagRunDeleted",
                f"The {where} does not exist: it was deleted, or the workflow has named another Dag since.",
            )
        if state in _ENDS:
            failure = ("DagRunFailed", f"The {where} has failed; the logs of its tasks contain the error.")
            return self._end(_ENDS[state], *((None, None) if state == "success" else failure))
        return self._timed_out(
            f"The {where} lasted longer than {self._timeout}; it is watched no more. A task cannot stop it, so it "
            "continues, unless its Dag has a dagrun_timeout."
        )

    def waiting_for(self, dag_run_id: str) -> RunResult | None:
        """Return the end of a run that has waited too long for the Dag run of an earlier attempt; None until then."""
        return self._timed_out(
            f"The run {dag_run_id} of Dag {self._dag_id}, of an earlier attempt, still runs after {self._timeout}, so "
            "no other was started. Nothing ends it, unless its Dag has a dagrun_timeout."
        )

    def unanswered(self, error: Exception) -> RunResult | None:
        """Return the end of a run about which alone Airflow does not answer, once it is late; None until then."""
        if not self.is_late:
            return None
        return self._end(
            "exception",
            "AirflowSilent",
            f"Airflow did not answer within {self._timeout} what was asked about this run, while it answered for "
            f"others: {one_line(error)} What Dag {self._dag_id} does for it may continue.",
        )

    def refused(self, error: WorkOrdersError) -> RunResult:
        """Return the end of a run whose input no Dag run can be given."""
        return self._end("exception", type(error).__name__, one_line(error), may_retry=False)

    def without_output(self, task_id: str, error: str, error_type: str) -> RunResult:
        """Return the end of a run whose Dag run has succeeded, with an output that cannot be kept."""
        text = (
            f"The run {self.dag_run_id} of Dag {self._dag_id} has succeeded, but what its task {task_id} returned "
            f"cannot be kept: {error}"
        )
        # Another attempt would repeat what has been done, for the same output.
        return self._end("failed", error_type, text, may_retry=False)

    def _timed_out(self, error: str) -> RunResult | None:
        return self._end("killed", "TimeoutError", error) if self.is_late else None

    def _end(
        self, state: FinalState, error_type: str | None = None, error: str | None = None, *, may_retry: bool = True
    ) -> RunResult:
        return RunResult(run_id=self._run_id, state=state, error_type=error_type, error=error, may_retry=may_retry)
