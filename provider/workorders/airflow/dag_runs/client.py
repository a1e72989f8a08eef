"""The Dag runs of one Dag that a task or a trigger may ask for: the messages are the task SDK's own.

All that tasks and triggers use of Airflow without being a part of its public interface is here; the API server has
`workorders.airflow.api_server`. Airflow may change it in any release, so no other module imports it.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, GetDag, GetDagRunState, GetDRCount, TriggerDagRun

from workorders.core.worker.exceptions import InputUnreadableError

_UNFINISHED: Final = ("queued", "running")
MAX_IDS: Final = 50
"""Run ids in one question: they become a part of a URL."""


class DagRuns:
    """Starts runs of a Dag from inside a task, and reads their states.

    Every question may raise an AirflowRuntimeError.
    """

    def __init__(self, dag_id: str) -> None:
        self.dag_id = dag_id
        self.has_answered = False
        """Whether Airflow has answered any question, by a refusal or otherwise."""

    def start(self, dag_run_id: str, conf: dict[str, Any], note: str, *, clear: bool = False) -> bool:
        """Start a Dag run, and return whether it was started; one that exists under this id is left alone.

        With `clear`, one that exists is cleared: it keeps its conf, and Airflow kills the tasks of an active one.

        Raises:
            AirflowRuntimeError: Airflow does not take it, because there is no such Dag or it takes none from a task.
            InputUnreadableError: the conf alone is to blame: the Dag's parameters refuse it, or it cannot be sent.
        """
        message = TriggerDagRun(
            dag_id=self.dag_id, run_id=dag_run_id, logical_date=None, conf=conf, note=note, reset_dag_run=clear
        )
        try:
            answer = self._ask(message)
        except (OverflowError, RecursionError) as error:  # a task sends its supervisor no integer beyond 64 bits
            raise InputUnreadableError(f"Dag {self.dag_id} cannot be given this input as its conf: {error}.") from error
        except AirflowRuntimeError as error:
            answer = error.error
        if not isinstance(answer, ErrorResponse):
            return True
        if answer.error == ErrorType.DAGRUN_ALREADY_EXISTS:
            return False
        match answer.detail:
            case {"status_code": 400, "detail": {"detail": {"reason": "value_error", "message": str(refusal)}}}:
                raise InputUnreadableError(f"Dag {self.dag_id} does not take this input as its conf: {refusal}")
        raise AirflowRuntimeError(answer)

    def unfinished(self, dag_run_ids: Sequence[str]) -> set[str]:
        """Return those of some Dag runs that are queued or running. In nearly every case it is all or none of them.

        They are counted, because a query for the state of a missing Dag run logs an error.
        """
        if not dag_run_ids:
            return set()  # without ids Airflow would count every run
        if len(dag_run_ids) <= MAX_IDS:
            found = self._ask(self._question(dag_run_ids)).count
            if found in {0, len(dag_run_ids)}:
                return set(dag_run_ids) if found else set()
        middle = len(dag_run_ids) // 2
        return self.unfinished(dag_run_ids[:middle]) | self.unfinished(dag_run_ids[middle:])

    async def count_unfinished(self, dag_run_ids: Sequence[str]) -> int:
        """Return how many of some Dag runs are queued or running; for the triggerer's event loop."""
        comms: Any = task_runner.SUPERVISOR_COMMS
        parts = (dag_run_ids[first : first + MAX_IDS] for first in range(0, len(dag_run_ids), MAX_IDS))
        return sum([int((await comms.asend(self._question(part))).count) for part in parts])

    def state(self, dag_run_id: str) -> str | None:
        """Return the state of a Dag run; None when it does not exist."""
        try:
            return str(self._ask(GetDagRunState(dag_id=self.dag_id, run_id=dag_run_id)).state.value)
        except AirflowRuntimeError as error:
            if _status(error.error) == HTTPStatus.NOT_FOUND:
                return None
            raise

    def is_paused(self) -> bool:
        """Return whether the Dag is paused."""
        return bool(self._ask(GetDag(dag_id=self.dag_id)).is_paused)

    def _question(self, dag_run_ids: Sequence[str]) -> GetDRCount:
        return GetDRCount(dag_id=self.dag_id, run_ids=list(dag_run_ids), states=list(_UNFINISHED))

    def _ask(self, message: Any) -> Any:
        try:
            answer = task_runner.SUPERVISOR_COMMS.send(message)  # only a running task has it
        except AirflowRuntimeError as error:
            self.has_answered |= not is_outage(error)
            raise
        self.has_answered = True
        return answer


def is_outage(error: AirflowRuntimeError) -> bool:
    """Return whether Airflow's API could not answer, and may answer the same question later.

    The supervisor of a task has then asked several times already (`[workers] execution_api_retries`).
    """
    if error.error.error != ErrorType.API_SERVER_ERROR:
        return False
    status = _status(error.error)
    return status is None or status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _status(answer: ErrorResponse) -> Any:
    return (answer.detail or {}).get("status_code")
