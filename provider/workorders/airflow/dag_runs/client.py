"""The runs of one DAG, as far as a task may ask for them: the interface is the task SDK's own messages."""

from collections.abc import Sequence
from typing import Any, Final

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, GetDagRunState, GetDRCount, TriggerDagRun
from airflow.sdk.execution_time.xcom import XCom

from workorders.core.worker.exceptions import InputUnreadableError

GOING: Final = ("queued", "running")
SUCCEEDED: Final = ("success",)
"""States of a DAG run."""

_RETURNED: Final = "return_value"
_NOT_FOUND: Final = 404
_TOO_MANY: Final = 429
_FAILED: Final = 500
_ASKED_AT_ONCE: Final = 50


class DagRuns:
    """Starts runs of a DAG from inside a task, and tells what became of them.

    Every question may raise an AirflowRuntimeError.
    """

    def __init__(self, dag_id: str) -> None:
        self.dag_id = dag_id

    def start(self, dag_run_id: str, conf: dict[str, Any], note: str) -> None:
        """Start a DAG run; one that is there already is left alone.

        Raises:
            AirflowRuntimeError: Airflow does not take it, for there is no such DAG, or it takes none from a task.
            InputUnreadableError: the conf alone is to blame: the DAG's parameters refuse it, or it cannot be handed
                over.
        """
        message = TriggerDagRun(dag_id=self.dag_id, run_id=dag_run_id, logical_date=None, conf=conf, note=note)
        try:
            answer = _ask(message)
        except (OverflowError, RecursionError) as error:  # a task tells its supervisor of no integer beyond 64 bits
            raise InputUnreadableError(f"DAG {self.dag_id} cannot be given this input as its conf: {error}.") from error
        except AirflowRuntimeError as error:
            answer = error.error
        if not isinstance(answer, ErrorResponse) or answer.error == ErrorType.DAGRUN_ALREADY_EXISTS:
            return
        refusal = _refusal(answer)
        if refusal is None:
            raise AirflowRuntimeError(answer)
        raise InputUnreadableError(f"DAG {self.dag_id} does not take this input as its conf: {refusal}")

    def first_in(self, dag_run_ids: Sequence[str], states: Sequence[str]) -> str | None:
        """Return the first of some DAG runs that is in one of these states; one that is not there is in none.

        They are counted: a question for the state of one that is not there leaves an error in the task's log.
        """
        for start in range(0, len(dag_run_ids), _ASKED_AT_ONCE):
            some = dag_run_ids[start : start + _ASKED_AT_ONCE]
            if self._count(some, states):
                return next((one for one in some if self._count([one], states)), None)
        return None

    def state(self, dag_run_id: str) -> str | None:
        """Return the state of a DAG run; None when it is not there."""
        try:
            return str(_ask(GetDagRunState(dag_id=self.dag_id, run_id=dag_run_id)).state.value)
        except AirflowRuntimeError as error:
            if _status(error.error) == _NOT_FOUND:
                return None
            raise

    def output(self, dag_run_id: str, task_id: str) -> Any:
        """Return what a task of a DAG run returned; None when it returned nothing, or was mapped or skipped.

        Raises:
            Exception: whatever a backend of XComs raises, or what it makes of the value.
        """
        return XCom.get_one(key=_RETURNED, dag_id=self.dag_id, task_id=task_id, run_id=dag_run_id)

    def _count(self, dag_run_ids: Sequence[str], states: Sequence[str]) -> int:
        return int(_ask(GetDRCount(dag_id=self.dag_id, run_ids=list(dag_run_ids), states=list(states))).count)


def is_outage(error: AirflowRuntimeError) -> bool:
    """Return whether Airflow's API could not answer, and may answer the same question later.

    The supervisor of a task has then asked several times already (`[workers] execution_api_retries`).
    """
    if error.error.error != ErrorType.API_SERVER_ERROR:
        return False
    status = _status(error.error)
    return status is None or status == _TOO_MANY or status >= _FAILED


def _ask(message: Any) -> Any:
    # Only a running task has it.
    return task_runner.SUPERVISOR_COMMS.send(message)


def _status(answer: ErrorResponse) -> Any:
    return (answer.detail or {}).get("status_code")


def _refusal(answer: ErrorResponse) -> str | None:
    """Return why the parameters of a DAG refuse a conf; None when something else is wrong."""
    match answer.detail:
        case {"status_code": 400, "detail": {"detail": {"reason": "value_error", "message": str(message)}}}:
            return message
    return None
