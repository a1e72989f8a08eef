"""Dags from a folder of workflow files, and from decorated functions."""

from pathlib import Path

import pytest
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.exceptions import AirflowFailException

from workorders.airflow.dags.factories import ConfigurationErrorOperator
from workorders.airflow.dags.workflows import make_dag, workflow_dags
from workorders.airflow.operators.execute_runs import ExecuteRunsOperator, RunDagsOperator
from workorders.airflow.retries import UNLIMITED_RETRIES
from workorders.airflow.sensors.runs import WaitForDagRunsSensor, WaitForRunsSensor
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.environment import workflow_folder

GOOD = "name: {name}\ncallable: support.run_functions:echo\n"


def write(folder: Path, file: str, text: str) -> None:
    (folder / file).write_text(text, encoding="utf-8")


def test_every_file_gives_a_dag_that_waits_and_executes(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", GOOD.format(name="admit"))
    write(tmp_path, "b.yml", "name: visit\ndag_id: visits\n")
    dags = workflow_dags(tmp_path)
    assert set(dags) == {"admit_runs", "visit_runs"}
    executes, runs_dags = dags["admit_runs"].get_task("execute_runs"), dags["visit_runs"].get_task("execute_runs")
    assert isinstance(executes, MappedOperator)
    assert executes.operator_class is ExecuteRunsOperator
    assert isinstance(runs_dags, RunDagsOperator)
    for dag, sensor in ((dags["admit_runs"], WaitForRunsSensor), (dags["visit_runs"], WaitForDagRunsSensor)):
        wait = dag.get_task("wait_for_runs")
        assert type(wait) is sensor
        assert wait.downstream_task_ids == {"execute_runs"}
        assert wait.retries == dag.get_task("execute_runs").retries == UNLIMITED_RETRIES


def test_functions_that_are_decorated_in_a_named_module_are_workflows_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        tmp_path,
        "decorated_workflows.py",
        "from workorders import workflow\n\n\n"
        "@workflow(concurrency=2)\ndef discharge(body, context):\n    return body\n",
    )
    folder = tmp_path / "files"
    folder.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert set(workflow_dags(folder, ["decorated_workflows"])) == {"discharge_runs"}


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        (GOOD.format(name="bad") + "concurency: 5\n", "concurency: there is no such field; did you mean concurrency?"),
        ("name: bad\n", "expected either callable or dag_id"),
        ("name: [", "this is not YAML"),
        (GOOD.format(name="bad") + "concurrency: 0\n", "concurrency: expected a whole number from 1"),
    ],
    ids=["unknown-field", "nothing-to-do", "no-yaml", "no-runs"],
)
def test_a_file_with_a_mistake_gives_a_dag_that_fails_with_the_sentence(tmp_path: Path, text: str, clause: str) -> None:
    write(tmp_path, "bad.yaml", text)
    write(tmp_path, "good.yaml", GOOD.format(name="good"))
    dags = workflow_dags(tmp_path)
    assert set(dags) == {"bad_refused", "good_runs"}
    (task,) = dags["bad_refused"].tasks
    assert isinstance(task, ConfigurationErrorOperator)
    with pytest.raises(AirflowFailException, match=r"bad\.yaml") as raised:
        task.execute({})
    assert clause in str(raised.value)


def test_a_module_that_cannot_be_imported_is_refused_by_its_name(tmp_path: Path) -> None:
    dags = workflow_dags(tmp_path, ["no_such.module"])
    assert set(dags) == {"no_such_module_refused"}


def test_of_two_files_with_one_name_the_second_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "first.yaml", GOOD.format(name="same"))
    write(tmp_path, "second.yaml", GOOD.format(name="same"))
    assert set(workflow_dags(tmp_path)) == {"same_runs", "second_refused"}


def test_a_dag_has_as_many_mapped_tasks_as_the_workflow_has_workers() -> None:
    dag = make_dag(WorkflowDefinition(name="admit", callable="a:b", workers=3))
    execute = dag.get_task("execute_runs")
    assert isinstance(execute, MappedOperator)
    assert execute.expand_input.value == {"worker": [1, 2, 3]}


def test_a_task_has_the_settings_that_the_workflow_gives_it() -> None:
    settings = {"execute_runs": {"pool": "small", "queue": "night"}, "wait_for_runs": {"priority_weight": 3}}
    dag = make_dag(WorkflowDefinition.model_validate({"name": "admit", "callable": "a:b", "tasks": settings}))
    execute, wait = dag.get_task("execute_runs"), dag.get_task("wait_for_runs")
    assert (execute.pool, execute.queue, wait.priority_weight) == ("small", "night", 3)
    assert execute.priority_weight != 3


def test_the_wait_starts_in_the_triggerer_with_arguments_that_it_can_read() -> None:
    definition = WorkflowDefinition(name="admit", callable="a:b", ordering_key="key", concurrency=2)
    sensor = WaitForRunsSensor(task_id="wait", definition=definition)
    assert sensor.start_from_trigger
    assert not WaitForRunsSensor.start_from_trigger
    assert sensor.start_trigger_args is not None
    arguments = sensor.start_trigger_args.trigger_kwargs or {}
    assert WorkflowDefinition.model_validate(arguments["definition"]) == definition


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORKORDERS_WORKFLOWS", raising=False)
    assert workflow_folder(tmp_path) == tmp_path
    monkeypatch.setenv("WORKORDERS_WORKFLOWS", "/elsewhere")
    assert workflow_folder(tmp_path) == Path("/elsewhere")
