"""The Dag of a workflow: a sensor waits for runs, and a task executes them with its callable, or by runs of its Dag."""

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, BaseOperator, Context
from airflow.sdk.exceptions import AirflowRuntimeError

from workorders import dag_ids
from workorders.airflow.connections import database_url
from workorders.airflow.dag_runs.client import DagRuns
from workorders.airflow.dag_runs.executor import DagRunExecutor
from workorders.airflow.dags.factories import collect, continuous_dag, owner_and_tags, retried_task
from workorders.airflow.page_links import PageLink, page_path
from workorders.airflow.task_errors import explain_failures
from workorders.airflow.triggers.polling import PollingSensor
from workorders.airflow.triggers.runs import WaitForRunsTrigger
from workorders.core import schema, workflows
from workorders.core.definitions.loading import WORKFLOWS
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.environment import workflow_folder, workflow_modules  # noqa: F401 - public names of the package
from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import connect, within_answer_seconds
from workorders.core.runs import lifecycle
from workorders.core.runs.lifecycle import Recovered
from workorders.core.worker.exceptions import ExecutionError
from workorders.core.worker.result_store import MAX_FAILURES, RunSummary
from workorders.core.worker.run_results import Mask, secrets_of
from workorders.core.worker.worker import Worker
from workorders.core.workflows import Workflow
from workorders.outbox.enqueue import enqueue_published

_BEGUN_RUNS: Final = (
    "Runs that had not begun wait again; those that had begun are finished, or will be recovered as lost."
)
_STARTED_DAG_RUNS: Final = "Started Dag runs continue; the next try records their ends and starts runs that wait."


def workflow_dags(folder: Path, modules: Iterable[str] = ()) -> dict[str, DAG]:
    """Return the Dags of every workflow in a folder and in some modules, by id.

    In place of a file or a module with a mistake there is a Dag that fails and names the wrong field. Other workflows
    are not affected.

    Raises:
        ConfigurationError: the folder does not exist, and no module is named.
    """
    modules = list(modules)
    files = WORKFLOWS.files(folder, may_be_missing=bool(modules))
    return collect(WORKFLOWS, [*files, *modules], lambda definition: [make_dag(definition)])


def make_dag(definition: WorkflowDefinition) -> DAG:
    """Return the Dag that executes a workflow's runs. Pausing it leaves its work orders waiting."""
    with continuous_dag(
        dag_ids.of_workflow(definition.name),
        description=definition.description or f"Executes the work orders of {definition.name}",
        **owner_and_tags(definition, "workflow"),
        doc_md=_DOC.format(
            name=definition.name,
            page=page_path("workflows", definition.name),
            does=definition.callable or f"the Dag {definition.dag_id}",
            executes="executes it"
            if definition.callable
            else "starts Dag runs; it ends at once, and records their ends",
        ),
    ) as dag:
        trigger = WaitForRunsTrigger(definition=definition.model_dump(mode="json"))
        wait = PollingSensor(trigger=trigger, **retried_task(definition, "wait_for_runs"))
        settings = {"definition": definition, **retried_task(definition, "execute_runs")}
        if definition.dag_id is None:
            wait >> ExecuteRunsOperator.partial(map_index_template="worker {{ task.worker }}", **settings).expand(
                worker=list(range(1, definition.workers + 1))
            )
        else:
            wait >> ExecuteRunsOperator(**settings)
    return dag


class ExecuteRunsOperator(BaseOperator):
    """Claims runs of a workflow and calls its callable for each, or starts a run of its Dag with the input as its conf.

    The log names a run that fails, and the task succeeds. The task fails if runs could not be executed at all. `worker`
    is the number of this task among its mapped ones.

    With a callable, it ends when no run arrived for `linger`, when its time slice is over, or if the Dag is paused
    while it waits. With a Dag, it waits for no Dag run: `WaitForRunsTrigger` does so in the triggerer. It attaches to
    one that exists, so a task that dies costs no second one. `processes` times `workers` of the definition is how many
    run at a time.
    """

    operator_extra_links = (PageLink("Workflow"),)
    ui_color = "#e8f1fa"

    def __init__(self, *, definition: WorkflowDefinition, worker: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.definition = definition
        self.page = ("workflows", definition.name)
        self.worker = worker
        self._worker: Worker | None = None
        self._is_stopped = False

    def execute(self, context: Context) -> None:
        """Execute runs; what could not be executed is named by an ExecutionError."""
        runs_dag = self.definition.dag_id is not None
        undone = _STARTED_DAG_RUNS if runs_dag else _BEGUN_RUNS
        with explain_failures(self, context, f"Workflow {self.definition.name}", undone, ExecutionError):
            url = database_url(self.definition.database_connection)
            with connect(url, application_name="workorders execute", may_wait=within_answer_seconds) as connection:
                schema.require_sequences_ahead(connection)
                workflow = workflows.register(connection, self.definition)
                connection.commit()
                recovered = lifecycle.recover_lost(connection, workflow)
            if recovered != Recovered():
                self.log.warning("%s", recovered)
            if runs_dag:
                self._run_dags(url, workflow)
            else:
                self._call_functions(url, workflow)

    def _call_functions(self, url: str, workflow: Workflow) -> None:
        """Claim runs, and call the callable in warm processes."""
        user_database = database_url(self.definition.database.connection) if self.definition.database else None
        urls = {"database": url, "user_database": user_database or ""}
        worker = Worker(
            workflow,
            database_url=url,
            enqueue=enqueue_published,
            user_database=user_database,
            mask=Mask(secrets_of({**os.environ, **urls})),
            log=partial(self.log.info, "%s"),
            may_wait=self._may_wait,
        )
        self._worker = worker
        if self._is_stopped:
            worker.stop()
        try:
            worker.work()
        finally:
            self._log_summary(worker.id, worker.summary)

    def _run_dags(self, url: str, workflow: Workflow) -> None:
        """Record the ends of Dag runs, claim runs, and start Dag runs for them."""
        executor = DagRunExecutor(url, workflow, log=partial(self.log.info, "%s"))
        try:
            executor.work()
        finally:
            self._log_summary(executor.owner, executor.summary)

    def _log_summary(self, worker_id: object, summary: RunSummary) -> None:
        """Log the first runs that did not succeed, and the number of all."""
        for line in summary.failures:
            self.log.warning("%s", line)
        unnamed = summary.total - summary.states["success"] - len(summary.failures)
        if unnamed:
            self.log.warning(
                "%s more runs did not succeed; the first %s are listed above.", f"{unnamed:,}", MAX_FAILURES
            )
        self.log.info("Workflow %s, worker %s: %s.", self.definition.name, worker_id, summary)

    def _may_wait(self) -> bool:
        """Return whether the Dag is not paused; without an answer the wait ends, and the next Dag run continues."""
        try:
            is_paused = DagRuns(self.dag_id).is_paused()
        except AirflowRuntimeError as error:
            self.log.warning("Airflow did not answer whether this Dag is paused; the wait ends: %s", one_line(error))
            return False
        if is_paused:
            self.log.info("This Dag was paused; the wait for more runs ends.")
        return not is_paused

    def on_kill(self) -> None:
        """Release the runs that have not begun, or claim none if the worker does not exist yet."""
        self._is_stopped = True
        if self._worker is not None:
            self._worker.stop()


_DOC = """
Executes the work orders of workflow **{name}** by {does}.

* `wait_for_runs` waits in the triggerer, without a worker. `execute_runs` claims the pending runs and {executes}.
* A failed run does not fail the task: [the page of the workflow]({page}) leads to it, and `workorders runs show ID` has
  its state, error and log.
* An `execute_runs` that is up for retry could not start at all; the last line of its log is the reason. It is
  retried without limit; a clear claims the pending runs.
* Pause this Dag to leave the work orders waiting. Nothing is lost.
"""
