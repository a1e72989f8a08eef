"""The Dag of a workflow: a sensor waits for runs, and a task executes them."""

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from airflow.sdk import DAG

from workorders import dag_ids
from workorders.airflow.dags.factories import collect, continuous_dag, owner_and_tags, retried_task
from workorders.airflow.operators.execute_runs import ExecuteRunsOperator, RunDagsOperator
from workorders.airflow.page_links import page_path
from workorders.airflow.sensors.runs import WaitForDagRunsSensor, WaitForRunsSensor
from workorders.core.definitions.decorator import declared_workflows
from workorders.core.definitions.loading import load_workflow, yaml_files
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.environment import WORKFLOW_MODULES_VARIABLE, WORKFLOWS_VARIABLE


def workflow_folder(default: Path) -> Path:
    """Return the folder of workflow files: the environment's, or else the default."""
    return Path(os.environ.get(WORKFLOWS_VARIABLE, default))


def workflow_modules() -> list[str]:
    """Return the modules whose decorated functions are workflows, as the environment names them."""
    return [name.strip() for name in os.environ.get(WORKFLOW_MODULES_VARIABLE, "").split(",") if name.strip()]


def workflow_dags(folder: Path, modules: Iterable[str] = ()) -> dict[str, DAG]:
    """Return the Dags of every workflow in a folder and in some modules, by id.

    In place of a file or a module with a mistake there is a Dag that fails and names the wrong field. Other workflows
    are not affected.

    Raises:
        ConfigurationError: the folder does not exist.
    """
    files = {path: partial(_load, path) for path in yaml_files(folder, "workflow")}
    # A module is no file; the Dag in its place is named after it.
    declared = {Path(module.replace(".", "_")): partial(declared_workflows, module) for module in modules}
    return collect("workflow", {**files, **declared}, lambda definition: [make_dag(definition)])


def _load(path: Path) -> list[WorkflowDefinition]:
    return [load_workflow(path)]


def make_dag(definition: WorkflowDefinition) -> DAG:
    """Return the Dag that executes a workflow's runs. Pausing it leaves its work orders waiting."""
    with continuous_dag(
        dag_ids.of_workflow(definition.name),
        dag_display_name=f"{definition.name}: runs",
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
        sensor = WaitForRunsSensor if definition.dag_id is None else WaitForDagRunsSensor
        wait = sensor(definition=definition, **retried_task(definition, "wait_for_runs"))
        if definition.dag_id is None:
            wait >> ExecuteRunsOperator.partial(
                definition=definition,
                map_index_template="worker {{ task.worker }}",
                **retried_task(definition, "execute_runs"),
            ).expand(worker=list(range(1, definition.workers + 1)))
        else:
            wait >> RunDagsOperator(definition=definition, **retried_task(definition, "execute_runs"))
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
