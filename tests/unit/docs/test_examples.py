"""The programs that the documents show."""

import importlib.util
import json
import logging
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from support.documents import DOCS, DOCUMENTS, PAGES, blocks, text_of
from workorders.airflow.retries import UnlimitedRetryPolicy, unlimited_retries

EXAMPLES = DOCS / "examples"


def load(name: str) -> ModuleType:
    """Import an example by its file's name."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def dags() -> ModuleType:
    """The DAGs of the document about your own Dags."""
    return load("orders_dags")


def test_the_example_is_the_one_that_the_document_shows() -> None:
    shown = [block for document in PAGES for block in blocks(document, "python")]
    assert shown.count((EXAMPLES / "orders_dags.py").read_text(encoding="utf-8")) == 1


def test_the_listener_waits_and_plans(dags: ModuleType) -> None:
    assert dags.listener.dag_id == "shop_listener"
    tasks = {task.task_id: task.downstream_task_ids for task in dags.listener.tasks}
    assert tasks == {"wait_for_messages": {"plan_batch"}, "plan_batch": set()}


def test_the_ingest_creates_and_then_commits_and_counts(dags: ModuleType) -> None:
    assert dags.ingest.dag_id == dags.plan.ingest_dag_id == "shop_ingest"
    tasks = {task.task_id: task.downstream_task_ids for task in dags.ingest.tasks}
    assert tasks == {
        "create_work_orders": {"commit_offsets", "count_rejected"},
        "commit_offsets": set(),
        "count_rejected": set(),
    }
    assert "batch_id" in dags.ingest.params


def test_our_tasks_are_tried_again_without_end(dags: ModuleType) -> None:
    tasks = [task for dag in (dags.listener, dags.ingest) for task in dag.tasks if task.task_id != "count_rejected"]
    for task in tasks:
        given = vars(task)
        assert isinstance(given["retry_policy"], UnlimitedRetryPolicy)
        # Also where Airflow asks no policy, as for a worker that was killed.
        wanted = {name: value for name, value in unlimited_retries().items() if name != "retry_policy"}
        assert {name: given[name] for name in wanted} == wanted


def test_the_producer_sends_ten_orders_and_one_that_is_cut_short() -> None:
    *orders, short = load("send_orders").values()
    assert len(orders) == 10
    assert all(isinstance(json.loads(order), dict) for order in orders)
    with pytest.raises(json.JSONDecodeError):
        json.loads(short)


def test_the_quickstart_shows_the_function_that_it_copies() -> None:
    assert (EXAMPLES / "shop.py").read_text(encoding="utf-8") in blocks(
        DOCS / "getting-started/quickstart.md", "python"
    )


def test_the_function_of_the_quickstart_ships_what_the_producer_sends() -> None:
    ship = load("shop").ship
    orders = [json.loads(value) for value in load("send_orders").values()[:-1]]
    context = SimpleNamespace(logger=logging.getLogger("test"))
    assert [ship(order, context) for order in orders] == [{"shipped": number} for number in range(1, 11)]


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_every_example_is_named_in_a_document(example: Path) -> None:
    assert any(f"examples/{example.name}" in text_of(document) for document in DOCUMENTS)
