from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from local_stack.stack import LocalStack
from workorders.core import history
from workorders.core.database import Connection
from workorders.core.single import Single
from workorders.core.triggers import Trigger
from workorders.manual import airflow as manual_airflow
from workorders.manual.airflow import CreateByHandOperator
from workorders.manual.creating import NotAnInputError, Wish, create
from workorders.manual.definition import ManualTriggerDefinition

pytestmark = pytest.mark.integration


def wish(body: bytes = b'{"a":1}', key: str | None = None) -> Wish:
    return Wish(body, "ada", "a test", key)


def test_it_says_who_and_why(connection: Connection, trigger: Trigger) -> None:
    made = create(connection, trigger, wish(key="k"))
    request = history.work_order(connection, made.id or UUID(int=0)).request
    assert request is not None
    for part in ('"who": "ada"', '"why": "a test"', '"key": "k"'):
        assert part in request


def test_the_same_key_creates_nothing_twice_and_no_key_is_an_event_of_its_own(
    connection: Connection, trigger: Trigger
) -> None:
    first = create(connection, trigger, wish(key="k"))
    assert create(connection, trigger, wish(key="k")) == Single(first.id, "pending", created=False)
    assert create(connection, trigger, wish()).id != create(connection, trigger, wish()).id


@pytest.mark.parametrize("body", [b"", b"[]", b"{", rb'{"a":"\u0000"}'])
def test_what_is_no_input_is_refused_and_creates_nothing(connection: Connection, trigger: Trigger, body: bytes) -> None:
    with pytest.raises(NotAnInputError, match=r"must be a JSON object, and .*; nothing was created\."):
        create(connection, trigger, wish(body))
    assert history.count_by_state(connection, trigger=trigger.name) == {}


@pytest.fixture
def submit(stack: LocalStack, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the task of a form, as a worker does."""
    monkeypatch.setattr(manual_airflow, "database_url", lambda _: stack.database_url)
    definition = ManualTriggerDefinition(name=name, workflow="admit")

    def execute(run_id: str, **fields: Any) -> str | None:
        params = {"body": {"a": 1}, "who": None, "why": "a test", "key": None, **fields}
        run = SimpleNamespace(dag_id=f"{name}_manual", run_id=run_id, triggering_user_name="eve")
        context: Any = {"params": params, "dag_run": run}
        return CreateByHandOperator(task_id="create_work_order", definition=definition).execute(context)

    return execute


def test_a_form_makes_a_work_order_of_the_user_who_sent_it(submit: Any, connection: Connection) -> None:
    made = submit("one", body={"order": 17})
    found = history.work_order(connection, UUID(made))
    assert found.body is not None
    assert '"order": 17' in found.body
    assert found.request is not None
    assert '"who": "eve"' in found.request


def test_a_cleared_task_finds_its_work_order_and_another_run_makes_its_own(submit: Any) -> None:
    assert submit("one") == submit("one") != submit("two")


def test_a_key_counts_over_runs(submit: Any) -> None:
    assert submit("one", key="k") == submit("two", key="k")
