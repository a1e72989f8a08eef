from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from local_stack.stack import LocalStack
from workorders.core.history import work_orders
from workorders.core.postgres.connection import Connection
from workorders.manual import airflow as manual_airflow
from workorders.manual.airflow import CreateByHandOperator
from workorders.manual.definition import ManualTriggerDefinition

pytestmark = pytest.mark.integration


@pytest.fixture
def submit(stack: LocalStack, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the task of a form, as a worker does."""
    monkeypatch.setattr(manual_airflow, "database_url", lambda _: stack.database_url)
    definition = ManualTriggerDefinition(name=name, workflow="admit")

    def execute(run_id: str, **fields: Any) -> str | None:
        params = {"body": {"a": 1}, "actor": None, "reason": "a test", "key": None, **fields}
        run = SimpleNamespace(dag_id=f"{name}_manual", run_id=run_id, triggering_user_name="eve")
        context: Any = {"params": params, "dag_run": run}
        return CreateByHandOperator(task_id="create_work_order", definition=definition).execute(context)

    return execute


def test_a_form_makes_a_work_order_of_the_user_who_sent_it(submit: Any, connection: Connection) -> None:
    made = submit("one", body={"order": 17})
    found = work_orders.get_work_order(connection, UUID(made))
    assert found.body is not None
    assert '"order": 17' in found.body
    assert found.request is not None
    assert '"actor": "eve"' in found.request


def test_a_form_that_names_another_actor_keeps_the_user_who_sent_it(submit: Any, connection: Connection) -> None:
    request = work_orders.get_work_order(connection, UUID(submit("one", actor="ada"))).request
    assert request is not None
    assert '"actor": "ada"' in request
    assert '"account": "eve"' in request


def test_a_cleared_task_finds_its_work_order_and_another_run_makes_its_own(submit: Any) -> None:
    assert submit("one") == submit("one") != submit("two")


def test_a_key_counts_over_runs(submit: Any) -> None:
    assert submit("one", key="k") == submit("two", key="k")
