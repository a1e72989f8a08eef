"""Dags from a folder of workflow files, and from decorated functions."""

from pathlib import Path

import pytest
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.exceptions import AirflowFailException

from workorders.airflow.dags.factories import ConfigurationErrorOperator
from workorders.airflow.dags.workflows import ExecuteRunsOperator, make_dag, workflow_dags
from workorders.airflow.retries import UNLIMITED_RETRIES
from workorders.airflow.triggers.polling import PollingSensor
from workorders.core.definitions.workflow import WorkflowDefinition

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
    assert isinstance(runs_dags, ExecuteRunsOperator)
    assert {dag.is_paused_upon_creation for dag in dags.values()} == {False}
    for dag in dags.values():
        wait = dag.get_task("wait_for_runs")
        assert type(wait) is PollingSensor
        assert wait.downstream_task_ids == {"execute_runs"}
        assert wait.retries == dag.get_task("execute_runs").retries == UNLIMITED_RETRIES


def test_a_file_or_a_module_with_a_mistake_gives_a_dag_that_fails_with_the_sentence(tmp_path: Path) -> None:
    write(tmp_path, "bad.yaml", "name: bad\n")
    write(tmp_path, "good.yaml", GOOD.format(name="good"))
    dags = workflow_dags(tmp_path, ["no_such.module", "support.decorated_wrongly", "support.decorated_workflows"])
    refused = {"bad_refused", "no_such_module_refused", "support_decorated_wrongly_refused"}
    assert set(dags) == {*refused, "good_runs", "first_steps_runs", "second_runs"}
    assert "support.decorated_wrongly:wrong, line 8: concurency: there is no such field" in (
        dags["support_decorated_wrongly_refused"].doc_md or ""
    )
    (task,) = dags["bad_refused"].tasks
    assert isinstance(task, ConfigurationErrorOperator)
    with pytest.raises(AirflowFailException, match=r"^bad\.yaml: expected either callable or dag_id\.$"):
        task.execute({})


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
    sensor = make_dag(definition).get_task("wait_for_runs")
    assert sensor.start_from_trigger
    assert not PollingSensor.start_from_trigger
    assert sensor.start_trigger_args is not None
    arguments = sensor.start_trigger_args.trigger_kwargs or {}
    assert WorkflowDefinition.model_validate(arguments["definition"]) == definition
