"""Links from Airflow's own places to the pages, also where Airflow is below a path."""

from typing import Any

import pytest

from support.definitions import define
from workorders.airflow.page_links import PageLink, page_path
from workorders.kafka.airflow.dags import make_dags


def test_a_page_has_the_path_at_which_airflow_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.org/airflow/")
    assert page_path("kafka", "a/b") == "/airflow/plugin/workorders/airflow/workorders/kafka/a%2Fb"
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://localhost:8080")
    assert page_path() == "/plugin/workorders/workorders/"


def test_tasks_of_a_trigger_have_a_button_and_its_dags_a_link_to_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.org")
    dags = {dag.dag_id: dag for dag in make_dags(define("orders"))}
    page = "/plugin/workorders/workorders/kafka/orders"
    assert all(f"({page})" in (dag.doc_md or "") for dag in dags.values())
    key: Any = None
    for dag_id, task_id in (("orders_listener", "plan_batch"), ("orders_ingest", "create_work_orders")):
        task: Any = dags[dag_id].get_task(task_id)
        assert any(isinstance(link, PageLink) for link in task.operator_extra_links)
        assert PageLink().get_link(task, ti_key=key) == f"https://example.org{page}"
