"""An Airflow that is a table of Dag runs, in place of the supervisor that a task or a trigger talks to."""

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.api.datamodels._generated import DagRunState
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import (
    DagResult,
    DagRunStateResult,
    DRCount,
    ErrorResponse,
    GetDag,
    GetDagRunState,
    GetDRCount,
    MaskSecret,
    TriggerDagRun,
)

NOT_FOUND = ErrorResponse(
    error=ErrorType.API_SERVER_ERROR, detail={"status_code": 404, "message": "Server returned error", "detail": {}}
)
SILENCE = ErrorResponse(
    error=ErrorType.API_SERVER_ERROR,
    detail={"status_code": None, "message": "connection refused", "exception_type": "ConnectError"},
)
"""What a task is told when its supervisor has asked several times in vain."""


class DagRuns:
    """Airflow's DAG runs. Each ends as its conf's `end` demands, or succeeds, at the second look.

    A test may set a state, which then stays, and watch what is asked.
    """

    def __init__(self) -> None:
        self.confs: dict[str, dict[str, Any]] = {}
        self.notes: dict[str, str | None] = {}
        self.states: dict[str, str] = {}
        self.cleared: list[str] = []
        self.looks: dict[str, int] = {}
        self.refuse: ErrorType | None = None
        self.asked: list[str] = []
        self.counted: list[int] = []
        """For each question how many runs are active, how many runs it names."""
        self.silent_for: list[str] = []
        """Names of the next questions that are not answered, in this order."""
        self.never_answers: Callable[[Any], bool] = lambda _: False
        """Whether a question is one that Airflow fails at each time."""
        self.paused: set[str] = set()
        """Ids of the Dags that are paused."""
        self.on_is_paused: Callable[[], object] = lambda: None
        self.on_start: Callable[[dict[str, Any]], object] = lambda _: None
        self.on_look: Callable[[str], object] = lambda _: None
        self.on_count: Callable[[], object] = lambda: None

    @classmethod
    def in_place(cls, monkeypatch: pytest.MonkeyPatch) -> "DagRuns":
        """Return one that every question of a task or a trigger goes to."""
        runs = cls()
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", runs, raising=False)
        return runs

    async def asend(self, message: Any) -> Any:
        """Answer a question of a trigger."""
        return self.send(message)

    def send(self, message: Any) -> Any:
        """Answer a question as the supervisor does."""
        if isinstance(message, MaskSecret):  # for the log, with each connection that is looked up
            return None
        self.asked.append(type(message).__name__)
        if self.silent_for and type(message).__name__ == self.silent_for[0]:
            lost = self.silent_for.pop(0)
            if lost == "TriggerDagRun":  # taken, and the answer was lost
                self._start(message)
            raise AirflowRuntimeError(SILENCE)
        if self.never_answers(message):
            raise AirflowRuntimeError(SILENCE)
        match message:
            case TriggerDagRun():
                return self._start(message)
            case GetDag():
                self.on_is_paused()
                return DagResult(
                    dag_id=message.dag_id,
                    is_paused=message.dag_id in self.paused,
                    bundle_name=None,
                    bundle_version=None,
                    relative_fileloc=None,
                    owners=None,
                    tags=[],
                    next_dagrun=None,
                )
            case GetDagRunState():
                return DagRunStateResult(state=DagRunState(self._look(message.run_id)))
            case GetDRCount():
                self.on_count()
                self.counted.append(len(message.run_ids or ()))
                there = set(message.run_ids or ()) & set(self.confs)
                return DRCount(count=sum(self.state(run_id) in (message.states or ()) for run_id in there))
        raise AssertionError(f"Nothing in the provider asks Airflow this: {message!r}")

    def _start(self, message: TriggerDagRun) -> ErrorResponse | None:
        conf = message.conf or {}
        if self.refuse:
            return ErrorResponse(error=self.refuse)
        if conf.get("end") == "refused":  # as the supervisor tells of an answer of Airflow's API
            answer = {"detail": {"reason": "value_error", "message": "Invalid input for param visit"}}
            detail = {"status_code": 400, "message": "Server returned error", "detail": answer}
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))
        if message.run_id in self.confs:
            if message.reset_dag_run:
                self.cleared.append(message.run_id)
                self.states[message.run_id] = "queued"
                return None
            return ErrorResponse(error=ErrorType.DAGRUN_ALREADY_EXISTS)
        self.on_start(conf)
        self.confs[message.run_id] = conf
        self.notes[message.run_id] = message.note
        return None

    def _look(self, run_id: str) -> str:
        self.on_look(run_id)
        if run_id not in self.confs:
            raise AirflowRuntimeError(NOT_FOUND)
        self.looks[run_id] = self.looks.get(run_id, 0) + 1
        return self.state(run_id)

    def state(self, run_id: str) -> str:
        """Return the state of a DAG run that is there."""
        if run_id in self.states:
            return self.states[run_id]
        return str(self.confs[run_id].get("end", "success")) if self.looks.get(run_id, 0) > 1 else "running"
