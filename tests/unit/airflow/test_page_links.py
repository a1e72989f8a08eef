"""Links from Airflow's own places to the pages, also where Airflow is below a path."""

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from support.definitions import define
from workorders.airflow.dags.workflows import make_dag
from workorders.airflow.page_links import page_path
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.kafka.airflow.dags import make_dags
from workorders.kafka.airflow.outbox_relay import outbox_dags

PAGES = "https://example.org/plugin/workorders/workorders"
TRIGGER, BATCH = f"{PAGES}/kafka/orders", f"{PAGES}/dag-run?dag_id=orders_ingest&run_id=batch_17"
BUTTONS = {
    ("orders_listener", "plan_batch"): {"Kafka trigger": TRIGGER},
    ("orders_ingest", "create_work_orders"): {"Kafka trigger": TRIGGER, "Work orders of this batch": BATCH},
    ("orders_ingest", "commit_offsets"): {"Kafka trigger": TRIGGER, "Work orders of this batch": BATCH},
    ("ship_runs", "execute_runs"): {"Workflow": f"{PAGES}/workflows/ship"},
    ("visit_runs", "execute_runs"): {"Workflow": f"{PAGES}/workflows/visit"},
    ("workorders_outbox_0", "send_messages"): {"Outbox": f"{PAGES}/outbox"},
}


def test_a_page_has_the_path_at_which_airflow_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.org/airflow/")
    assert page_path("kafka", "a/b") == "/airflow/plugin/workorders/airflow/workorders/kafka/a%2Fb"
    assert page_path("jobs", state="a b&c").endswith("/workorders/jobs?state=a+b%26c")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://localhost:8080")
    assert page_path() == "/plugin/workorders/workorders/"


@pytest.fixture
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, DAG]:
    """The Dags whose tasks have buttons."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.org")
    (tmp_path / "outbox.yaml").write_text("shards: 1\n")
    workflows = [{"name": "ship", "callable": "a:b"}, {"name": "visit", "dag_id": "visits"}]
    made = [*make_dags(define("orders")), *(make_dag(WorkflowDefinition.model_validate(one)) for one in workflows)]
    return {dag.dag_id: dag for dag in made} | outbox_dags(tmp_path / "outbox.yaml")


@pytest.mark.parametrize(("place", "buttons"), BUTTONS.items(), ids=map("-".join, BUTTONS))
def test_a_task_has_buttons_to_what_it_works_on(
    dags: dict[str, DAG], place: tuple[str, str], buttons: dict[str, str]
) -> None:
    dag_id, task_id = place
    task: Any = dags[dag_id].get_task(task_id)
    if task.is_mapped:
        task = task.unmap({"worker": 1})
    task.batch_id = "17"  # as rendered, also in a Dag run that a person started under another id
    key: Any = None
    links = {link.name: link.get_link(task, ti_key=key) for link in task.operator_extra_links}
    assert links == buttons


def serialized(dags: dict[str, DAG], dag_id: str, task_id: str) -> Any:
    """Return a task as the scheduler and the API server read it from the database."""
    return DagSerialization.from_dict(DagSerialization.to_dict(dags[dag_id])).get_task(task_id)


@pytest.mark.parametrize(("place", "buttons"), BUTTONS.items(), ids=map("-".join, BUTTONS))
def test_airflow_keeps_each_button_of_a_task_under_a_key_of_its_own(
    dags: dict[str, DAG], place: tuple[str, str], buttons: dict[str, str]
) -> None:
    kept = serialized(dags, *place)
    keys = {link.name: link.xcom_key for link in kept.operator_extra_links}
    assert set(keys) == set(buttons)
    assert len(set(keys.values())) == len(buttons)
