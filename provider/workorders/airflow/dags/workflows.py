"""The Dag of a workflow: a sensor waits for runs, and a task executes them."""

from collections.abc import Iterable
from pathlib import Path

from airflow.sdk import DAG

from workorders import dag_ids
from workorders.airflow.dags.factories import collect, continuous_dag, owner_and_tags, retried_task
from workorders.airflow.operators.execute_runs import ExecuteRunsOperator
from workorders.airflow.page_links import page_path
from workorders.airflow.triggers.polling import PollingSensor
from workorders.airflow.triggers.runs import WaitForRunsTrigger
from workorders.core.definitions.loading import WORKFLOWS
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.environment import workflow_folder, workflow_modules  # noqa: F401 - public names of the package


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
        trigger = WaitForRunsTrigger(
            definition=definition.model_dump(mode="json"), database_connection=definition.database_connection
        )
        wait = PollingSensor(trigger=trigger, **retried_task(definition, "wait_for_runs"))
        settings = {"definition": definition, **retried_task(definition, "execute_runs")}
        if definition.dag_id is None:
            wait >> ExecuteRunsOperator.partial(map_index_template="worker {{ task.worker }}", **settings).expand(
                worker=list(range(1, definition.workers + 1))
            )
        else:
            wait >> ExecuteRunsOperator(**settings)
    return dag


_DOC = """
Executes the work orders of workflow **{name}** by {does}.

* `wait_for_runs` waits in the triggerer, without a worker. `execute_runs` claims the pending runs and {executes}.
* A failed run does not fail the task: [the page of the workflow]({page}) leads to it, and `workorders runs show ID` has
  its state, error and log.
* An `execute_runs` that is up for retry could not start at all; the last line of its log is the reason. It is
  retried without limit; a clear claims the pending runs.
* Pause this Dag to leave the work orders waiting. Nothing is lost.
"""
