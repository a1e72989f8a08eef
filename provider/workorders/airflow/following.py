"""The DAG runs of one group: started for its runs, and followed to their ends."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Event
from typing import Any, Final
from uuid import UUID, uuid4

from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from workorders.core import claiming, runs
from workorders.core.claiming import ClaimedRun
from workorders.core.exceptions import one_line
from workorders.core.execution import values
from workorders.core.execution.conversions import wiped
from workorders.core.execution.exceptions import ExecutionError, GroupTakenError, InputUnreadableError
from workorders.core.execution.heartbeat import Heartbeat
from workorders.core.execution.store import Store
from workorders.core.execution.tally import Tally
from workorders.core.execution.turn import Turn
from workorders.core.runs import FinalState, RunResult
from workorders.core.workflows import Workflow
from workorders.outbox.published import enqueue_published

LOOK_SECONDS: Final = 2.0
"""Time between two looks at the DAG runs."""
_ENDS: Final[dict[str, FinalState]] = {"success": "success", "failed": "failed"}


@dataclass(frozen=True, slots=True)
class _Followed:
    run: ClaimedRun
    dag_run_id: str
    started_at: datetime
    deadline: float


class Following:
    """The DAG runs of one group.

    Args:
        url: where the work orders' database is.
        workflow: as it is registered there.
        stop: ends it soon when it is set; DAG runs that were started go on.
        claim_seconds: after so long no more is claimed; what is in hand is followed to its end.
        turn: what the tasks that share its turn call it.
        say: is told in plain sentences what becomes of the group as a whole.
    """

    def __init__(
        self,
        url: str,
        workflow: Workflow,
        *,
        stop: Event,
        claim_seconds: float,
        turn: str,
        say: Callable[[str], None],
    ) -> None:
        if workflow.definition is None or workflow.definition.dag_id is None:
            raise ExecutionError(f"Workflow {workflow.name} has no dag_id, so no DAG was run for it.")
        self._workflow = workflow
        self._definition = workflow.definition
        self._dag_id = workflow.definition.dag_id
        self._stop = stop
        self._until = time.monotonic() + claim_seconds
        self.group_id = uuid4()
        self._heartbeat = Heartbeat(url, self.group_id, say=say)
        self._store = Store(
            url,
            self.group_id,
            enqueue=enqueue_published,
            may_go_on=lambda: not self._heartbeat.silent,
            say=say,
        )
        self._turn = Turn(self._store, workflow, name=turn, seconds=self._definition.turn_seconds, say=say)
        self._followed: dict[UUID, _Followed] = {}
        self._tally = Tally()

    def work(self) -> Tally:
        """Start and follow until nothing can be claimed and all has ended, and return what became of the runs.

        Raises:
            GroupTakenError: the group could not say that it is alive.
            AirflowRuntimeError: Airflow does not take or show DAG runs.
        """
        try:
            with self._heartbeat:
                while not self._stop.is_set():
                    self._start_more()
                    if not self._followed:
                        break
                    self._look()
                    self._stop.wait(LOOK_SECONDS)
        finally:
            self._store.close()
        return self._tally

    def _start_more(self) -> None:
        room = self._definition.processes - len(self._followed)
        if room < 1 or time.monotonic() > self._until or self._turn.is_over():
            return
        claimed = self._store.ask(
            lambda connection: claiming.claim(connection, self._workflow, limit=room, group_id=self.group_id)
        )
        for place, run in enumerate(claimed):
            try:
                self._begin(run)
            except AirflowRuntimeError:
                self._give_back([run.run_id for run in claimed[place:]])
                raise
        if claimed:
            self._turn.has_work()

    def _give_back(self, ids: list[UUID]) -> None:
        self._store.ask(lambda connection: runs.release(connection, self.group_id, ids))

    def _begin(self, run: ClaimedRun) -> None:
        if not self._store.ask(lambda connection: runs.start(connection, self.group_id, [run.run_id])):
            return
        started_at, dag_run_id = datetime.now(UTC), f"run_{run.run_id}"
        if run.body is None:
            self._finish([wiped(run)[0]])
            return
        try:
            start_dag_run(self._dag_id, dag_run_id, values.loads(run.body), f"work order {run.work_order_id}")
        except InputUnreadableError as error:
            result = _result(run, started_at, "exception", type(error).__name__, one_line(error))
            self._finish([replace(result, may_retry=False)])
            return
        deadline = time.monotonic() + self._definition.timeout_seconds
        self._followed[run.run_id] = _Followed(run, dag_run_id, started_at, deadline)

    def _look(self) -> None:
        if self._heartbeat.silent:
            raise GroupTakenError(
                f"Group {self.group_id} could not say for too long that it is alive; its DAG runs go on, and its runs "
                "will be found lost."
            )
        ended = [result for followed in self._followed.values() if (result := self._end_of(followed)) is not None]
        if ended:
            self._finish(ended)
        for result in ended:
            del self._followed[result.run_id]

    def _end_of(self, followed: _Followed) -> RunResult | None:
        state = RuntimeTaskInstance.get_dagrun_state(self._dag_id, followed.dag_run_id)
        where = f"run {followed.dag_run_id} of DAG {self._dag_id}"
        if state in _ENDS:
            error = None if state == "success" else f"The {where} has failed; its tasks' logs say why."
            error_type = None if state == "success" else "DagRunFailed"
            return _result(followed.run, followed.started_at, _ENDS[state], error_type, error)
        if time.monotonic() > followed.deadline:
            seconds = self._definition.timeout_seconds
            error = (
                f"The {where} lasted longer than timeout_seconds ({seconds}); it is followed no more. "
                "A task cannot stop it, so it goes on, unless its DAG has a dagrun_timeout."
            )
            return _result(followed.run, followed.started_at, "killed", "TimeoutError", error)
        return None

    def _finish(self, results: list[RunResult]) -> None:
        finished, written = self._store.finish([(result, ()) for result in results])
        self._tally.add(written)
        self._tally.retried += len(finished.retried)


def start_dag_run(dag_id: str, dag_run_id: str, conf: dict[str, Any], note: str) -> None:
    """Start a DAG run from inside a task; one that is there already is left alone.

    Raises:
        AirflowRuntimeError: Airflow does not take it, for there is no such DAG, or it takes none from a task.
        InputUnreadableError: the conf alone is to blame: the DAG's parameters refuse it, or it cannot be handed over.
    """
    message = TriggerDagRun(dag_id=dag_id, run_id=dag_run_id, logical_date=None, conf=conf, note=note)
    try:
        # Only a running task has it.
        answer = task_runner.SUPERVISOR_COMMS.send(message)
    except (OverflowError, RecursionError) as error:  # a task tells its supervisor of no integer beyond 64 bits
        raise InputUnreadableError(f"DAG {dag_id} cannot be given this input as its conf: {error}.") from error
    except AirflowRuntimeError as error:
        answer = error.error
    if not isinstance(answer, ErrorResponse) or answer.error == ErrorType.DAGRUN_ALREADY_EXISTS:
        return
    refusal = _refusal(answer)
    if refusal is None:
        raise AirflowRuntimeError(answer)
    raise InputUnreadableError(f"DAG {dag_id} does not take this input as its conf: {refusal}")


def _refusal(answer: ErrorResponse) -> str | None:
    """Return why the parameters of a DAG refuse a conf; None when something else is wrong."""
    match answer.detail:
        case {"status_code": 400, "detail": {"detail": {"reason": "value_error", "message": str(message)}}}:
            return message
    return None


def _result(
    run: ClaimedRun, started_at: datetime, state: FinalState, error_type: str | None, error: str | None
) -> RunResult:
    return RunResult(
        run_id=run.run_id,
        state=state,
        error_type=error_type,
        error=error,
        started_at=started_at,
        finished_at=datetime.now(UTC),
    )
