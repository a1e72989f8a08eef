"""One pass over the runs of a workflow whose work Dag runs do: record the ends, claim, and start."""

from collections.abc import Callable, Sequence
from threading import Event
from typing import Any, Concatenate, Final, ParamSpec, TypeVar
from uuid import UUID

from airflow.sdk.exceptions import AirflowRuntimeError

from workorders import dag_ids
from workorders.airflow.dag_runs.client import DagRuns, is_outage
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import Connection
from workorders.core.runs import claiming, delegation, lifecycle
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.delegation import DelegatedRun
from workorders.core.runs.lifecycle import FinalState, RunResult
from workorders.core.worker import json_values
from workorders.core.worker.context import Context
from workorders.core.worker.exceptions import ContextKeyTakenError, ExecutionError, InputUnreadableError
from workorders.core.worker.result_store import ResultStore, RunSummary
from workorders.core.worker.run_results import without_input
from workorders.core.workflows import Workflow

_MAX_CLAIMED: Final = 1_000
_HEADERS: Final = "headers"

P = ParamSpec("P")
T = TypeVar("T")


class DagRunExecutor:
    """Records all ends and starts all Dag runs that are possible now, without waiting.

    Every step can be repeated: the id of a Dag run follows from its run, and Airflow takes each id once. So the next
    task continues after one that died anywhere, and two concurrent tasks do no harm. A work order never has two Dag
    runs at once.
    """

    def __init__(self, url: str, workflow: Workflow, *, log: Callable[[str], None]) -> None:
        if workflow.definition is None or workflow.definition.dag_id is None:
            raise ExecutionError(f"Workflow {workflow.name} has no dag_id, so no Dag was run for it.")
        self.owner = delegation.owner_of(workflow.name)
        self._workflow = workflow
        self._definition = workflow.definition
        self._dag_runs = DagRuns(workflow.definition.dag_id)
        self._log = log
        # A Dag run publishes by itself.
        self._store = ResultStore(
            url, self.owner, enqueue=lambda *_: None, may_continue=lambda: True, stop=Event(), log=log
        )

    @property
    def summary(self) -> RunSummary:
        """How the runs have ended so far."""
        return self._store.summary

    def work(self) -> RunSummary:
        """Record the ends of Dag runs, start Dag runs, and return a summary of the runs that ended.

        Raises:
            AirflowRuntimeError: Airflow does not answer, or accepts no Dag runs; the ends it reported are recorded.
            psycopg.Error: the database failed, or was unavailable for too long.
        """
        try:
            delegated = self._do(delegation.list_delegated, self._workflow)
            started = [run for run in delegated if run.is_started]
            self._for_each(started, self._end_of)
            capacity = self._definition.max_dag_runs - len(delegated) + self.summary.total
            self._start_waiting(min(capacity, _MAX_CLAIMED), [run.run_id for run in started])
        finally:
            self._store.close()
        return self.summary

    def _do(self, step: Callable[Concatenate[Connection, P], T], *arguments: P.args, **named: P.kwargs) -> T:
        return self._store.run_in_transaction(lambda connection: step(connection, *arguments, **named))

    def _start_waiting(self, capacity: int, started: list[UUID]) -> None:
        claimed = self._do(delegation.claim, self._workflow, limit=capacity)
        # Those that wait for the Dag run of an earlier attempt, and those of a task that died.
        but = started + [run.run_id for run in claimed]
        left = self._do(claiming.claimed, self._workflow, self.owner, but=but)
        inputs = {run.run_id: run for run in left + claimed}
        delegated = {run.run_id: run for run in self._do(delegation.list_delegated, self._workflow)}
        waiting = [delegated[run_id] for run_id in inputs if run_id in delegated]
        untried = {run.run_id for run in waiting}

        def start(run: DelegatedRun) -> RunResult | None:
            end = self._start(inputs[run.run_id], run)
            untried.discard(run.run_id)
            return end

        try:
            self._for_each(waiting, start)
        except AirflowRuntimeError as error:
            if not is_outage(error):
                self._do(lifecycle.release, self.owner, untried)
            raise

    def _for_each(self, runs: Sequence[DelegatedRun], step: Callable[[DelegatedRun], RunResult | None]) -> None:
        """Take a step for each run and record the ends; one question that Airflow never answers ends its own run."""
        results: list[RunResult | None] = []
        unanswered: list[tuple[DelegatedRun, AirflowRuntimeError]] = []
        try:
            for run in runs:
                try:
                    results.append(step(run))
                except AirflowRuntimeError as error:
                    if not is_outage(error):
                        raise
                    unanswered.append((run, error))
                    if len(unanswered) > 1 and not self._dag_runs.has_answered:
                        break
            if self._dag_runs.has_answered:
                results += [
                    self._end_if_late(
                        run,
                        f"Airflow did not answer within {self._timeout} what was asked about this run, while it "
                        f"answered for others: {one_line(error)} What Dag {self._dag_runs.dag_id} does for it may "
                        "continue.",
                        state="exception",
                        error_type="AirflowSilent",
                    )
                    for run, error in unanswered
                ]
        finally:
            if ended := [result for result in results if result is not None]:
                self._store.finish(ended)
        if unanswered and not self._dag_runs.has_answered:
            raise unanswered[0][1]

    def _end_of(self, run: DelegatedRun) -> RunResult | None:
        """Return how a run that has its Dag run ended; None while it runs in time."""
        dag_run_id = dag_ids.run_of(run.run_id)
        where = f"run {dag_run_id} of Dag {self._dag_runs.dag_id}"
        match self._dag_runs.state(dag_run_id):
            case "success":
                return RunResult(run_id=run.run_id, state="success")
            case "failed":
                error = f"The {where} has failed; the logs of its tasks contain the error."
                return RunResult(run_id=run.run_id, state="failed", error_type="DagRunFailed", error=error)
            case None:
                error = f"The {where} does not exist: it was deleted, or the workflow has named another Dag since."
                return RunResult(run_id=run.run_id, state="exception", error_type="DagRunDeleted", error=error)
        return self._end_if_late(
            run,
            f"The {where} lasted longer than {self._timeout}; it is watched no more. A task cannot stop it, so it "
            "continues, unless its Dag has a dagrun_timeout.",
        )

    def _end_if_late(
        self, run: DelegatedRun, error: str, *, state: FinalState = "killed", error_type: str = "TimeoutError"
    ) -> RunResult | None:
        """Return the end of a run that has lasted too long; None until then."""
        if run.seconds <= self._definition.timeout:
            return None
        return RunResult(run_id=run.run_id, state=state, error_type=error_type, error=error)

    @property
    def _timeout(self) -> str:
        return f"timeout ({self._definition.timeout:g} s)"

    def _start(self, run: ClaimedRun, delegated: DelegatedRun) -> RunResult | None:
        """Start the Dag run of a run, or attach to the one that an earlier task started; return an end without one."""
        if run.body is None:
            return without_input(run)
        unfinished = self._dag_runs.unfinished([dag_ids.run_of(run_id) for run_id in delegated.earlier])
        if unfinished:
            earlier = min(unfinished)
            self._log(
                f"Run {run.run_id} waits: run {earlier} of Dag {self._dag_runs.dag_id}, of an earlier attempt, still "
                "runs, and a work order never has two of them at once."
            )
            return self._end_if_late(
                delegated,
                f"The run {earlier} of Dag {self._dag_runs.dag_id}, of an earlier attempt, still runs after "
                f"{self._timeout}, so no other was started. Nothing ends it, unless its Dag has a dagrun_timeout.",
            )
        if not self._do(delegation.is_delegated, self._workflow, run.run_id):
            return None
        try:
            conf = with_context(json_values.loads(run.body), run, self._definition)
            self._dag_runs.start(dag_ids.run_of(run.run_id), conf, f"work order {run.work_order_id}")
        except InputUnreadableError as error:
            error_type = type(error).__name__
            return RunResult(
                run_id=run.run_id, state="exception", error_type=error_type, error=one_line(error), may_retry=False
            )
        self._do(lifecycle.start, self.owner, [run.run_id])
        return None


def with_context(body: dict[str, Any], run: ClaimedRun, definition: WorkflowDefinition) -> dict[str, Any]:
    """Return an input with the context of its run under the workflow's `context_key`, or as it is without one.

    Of the headers only those that the workflow carries: others see the conf, and a header may be a secret.
    """
    key = definition.context_key
    if key is None:
        return body
    if key in body:
        raise ContextKeyTakenError(
            f"The input has the key {key}, under which a run of DAG {definition.dag_id} is to find its context, so "
            f"none was started; give context_key of workflow {definition.name} another name, or null for no context."
        )
    context = Context(
        str(run.run_id),
        str(run.work_order_id),
        run.attempt,
        run.trigger or None,
        request=run.request,
        carry_headers=definition.carry_headers,
    )
    fields = {
        "workflow": definition.name,
        "work_order_id": context.work_order_id,
        "run_id": context.run_id,
        "attempt": context.attempt,
        "trigger": context.trigger,
        "request": {name: value for name, value in context.request.items() if name != _HEADERS},
        "headers": dict(context.headers),
        "traceparent": context.traceparent,
    }
    return {**body, key: fields}
