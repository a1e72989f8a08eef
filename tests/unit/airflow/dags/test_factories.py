"""Dags from a folder of trigger files."""

import re
import sys
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from workorders.airflow.dags import folder_modules, trigger_dags, trigger_folder, workflow_folder
from workorders.airflow.dags.factories import ConfigurationErrorOperator
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.kafka.airflow import CreateWorkOrdersOperator

GOOD = "name: {name}\ntype: kafka\nworkflow: register_event\ntopics: [{name}]\n"


def write(folder: Path, file: str, text: str) -> None:
    (folder / file).write_text(text, encoding="utf-8")


def test_every_file_gives_a_listener_and_an_ingest(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", GOOD.format(name="admissions"))
    write(tmp_path, "b.yml", GOOD.format(name="births"))
    write(tmp_path, "notes.txt", "no trigger")
    assert set(trigger_dags(tmp_path)) == {
        "admissions_listener",
        "admissions_ingest",
        "births_listener",
        "births_ingest",
    }


def test_a_file_with_a_mistake_gives_a_dag_that_fails_with_the_sentence(tmp_path: Path) -> None:
    write(tmp_path, "bad.yaml", GOOD.format(name="bad") + "max_mesages: 5\n")
    write(tmp_path, "good.yaml", GOOD.format(name="good"))
    dags = trigger_dags(tmp_path)
    assert set(dags) == {"bad_refused", "good_listener", "good_ingest"}
    # A Dag that Airflow creates paused, which is its default, never runs: the mistake would stay unseen.
    assert dags["bad_refused"].is_paused_upon_creation is False
    (task,) = dags["bad_refused"].tasks
    assert isinstance(task, ConfigurationErrorOperator)
    # A try that Airflow loses is retried; the mistake itself is not.
    assert task.retries
    sentence = "bad.yaml, line 5: max_mesages: there is no such field; did you mean max_messages?"
    with pytest.raises(AirflowFailException, match=f"^{re.escape(sentence)}$"):
        task.execute({})
    assert sentence in (dags["bad_refused"].doc_md or "")


@pytest.mark.parametrize("dag_id", [None, "orders_ingest"])
def test_a_trigger_has_the_definition_of_its_workflow_or_the_mistake_of_what_may_define_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dag_id: str | None
) -> None:
    folder, workflows = tmp_path / "triggers", tmp_path / "workflows"
    folder.mkdir()

    def found() -> object:
        create = trigger_dags(folder, modules=["support.decorated_workflows"])["orders_ingest"].task_dict[
            "create_work_orders"
        ]
        assert isinstance(create, CreateWorkOrdersOperator)
        assert create.definition is not None
        return create.definition.found_workflow

    if dag_id is not None:
        monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", dag_id)
    write(folder, "orders.yaml", GOOD.format(name="orders"))
    assert found() is None
    workflows.mkdir()
    write(workflows, "events.yaml", "name: register_event\ncallable: shop:register\nordering_key: key\n")
    assert isinstance(workflow := found(), WorkflowDefinition)
    assert str(workflow.ordering_key) == "key"
    write(workflows, "events.yaml", "name: register_event\n")
    assert str(found()) == "events.yaml: expected either callable or dag_id."
    write(folder, "orders.yaml", GOOD.format(name="orders").replace("register_event", "first_steps"))
    assert isinstance(workflow := found(), WorkflowDefinition)
    assert workflow.name == "first_steps"


def test_a_trigger_whose_dags_cannot_be_made_is_refused_alone(tmp_path: Path) -> None:
    write(tmp_path, "bad.yaml", "name: nightly\ntype: cron\nworkflow: ship\nschedule: '61 2 * * *'\n")
    write(tmp_path, "good.yaml", GOOD.format(name="good"))
    dags = trigger_dags(tmp_path)
    assert set(dags) == {"bad_refused", "good_listener", "good_ingest"}
    assert "is not a cron expression" in (dags["bad_refused"].doc_md or "")


def test_the_environment_names_the_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, folder in (("WORKORDERS_TRIGGERS", trigger_folder), ("WORKORDERS_WORKFLOWS", workflow_folder)):
        monkeypatch.setenv(variable, "")
        assert folder(tmp_path) == tmp_path
        monkeypatch.setenv(variable, "/elsewhere")
        assert folder(tmp_path) == Path("/elsewhere")


@pytest.mark.parametrize("decorator", ["@workflow", "@workflow(ordering_key='key')", "@workorders.workflow"])
def test_a_decorated_function_in_the_folder_is_a_workflow_without_being_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decorator: str
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("WORKORDERS_WORKFLOW_MODULES", "shop.orders")
    text = f"import workorders\nfrom workorders import workflow\n\n\n{decorator}\ndef bill(order, context):\n    pass\n"
    (tmp_path / "billing_of_folder.py").write_text(text, encoding="utf-8")
    (tmp_path / "test_billing.py").write_text("from billing_of_folder import bill\n\nraise SystemExit\n", "utf-8")
    assert folder_modules(tmp_path) == folder_modules(tmp_path) == ["billing_of_folder", "shop.orders"]
    assert sys.path.count(str(tmp_path)) == 1
