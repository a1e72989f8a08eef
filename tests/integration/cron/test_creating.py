from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pendulum
import pytest

from local_stack.stack import LocalStack
from support.unreadable import BEYOND_WORKERS
from support.work_orders import keys
from workorders.core import claiming, history, runs, triggers, workflows
from workorders.core.database import Connection
from workorders.core.runs import FinalState, RunResult
from workorders.core.single import Single
from workorders.core.workflow_definition import WorkflowDefinition
from workorders.cron import airflow as cron_airflow
from workorders.cron.airflow import CreateScheduledOperator
from workorders.cron.creating import Due, create
from workorders.cron.definition import CronTriggerDefinition

pytestmark = pytest.mark.integration

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)


def define(name: str, **fields: Any) -> CronTriggerDefinition:
    return CronTriggerDefinition.model_validate(
        {"name": name, "workflow": name, "schedule": "@hourly", "input": {"first": True}, **fields}
    )


def due(hours: int = 0) -> Due:
    return Due(NINE + (hours - 1) * HOUR, NINE + hours * HOUR)


def body_of(connection: Connection, made: Single) -> str:
    assert made.id is not None
    body = history.work_order(connection, made.id).body
    assert body is not None
    return "".join(body.split())


def work(connection: Connection, workflow: str, state: FinalState, output: bytes | None = None) -> None:
    """Do the oldest work order that waits; it ends so."""
    workflows.register(connection, WorkflowDefinition(name=workflow, dag_id="none"))
    group_id = uuid4()
    (claimed,) = claiming.claim(connection, workflows.find(connection, workflow), limit=1, group_id=group_id)
    runs.start(connection, group_id, [claimed.run_id])
    runs.finish(connection, group_id, [RunResult(run_id=claimed.run_id, state=state, output=output)])


@pytest.fixture
def own(connection: Connection) -> Connection:
    """A connection as the operator has it."""
    connection.autocommit = True
    return connection


def test_an_interval_makes_one_work_order_with_the_input_of_the_definition(own: Connection, name: str) -> None:
    made = create(own, define(name), due())
    again = create(own, define(name), due())
    assert made.created
    assert again == Single(made.id, "pending", created=False)
    assert keys(own, triggers.find(own, name)) == [("schedule", int(NINE.timestamp()))]
    assert body_of(own, made) == '{"first":true}'
    request = history.work_order(own, made.id or UUID(int=0)).request
    assert request is not None
    assert '"scheduled_for": "2026-03-01T09:00:00Z"' in request


def test_each_interval_has_its_own(own: Connection, name: str) -> None:
    assert [create(own, define(name), due(hour)).created for hour in range(3)] == [True] * 3


def test_the_last_successful_output_is_the_next_input(own: Connection, name: str) -> None:
    definition = define(name, last_output=True)
    assert body_of(own, create(own, definition, due(0))) == '{"first":true}'
    assert body_of(own, create(own, definition, due(1))) == '{"first":true}'
    work(own, name, "success", b'{"cursor": 7}')
    work(own, name, "success", b'{"cursor": 8}')
    assert body_of(own, create(own, definition, due(2))) == '{"cursor":8}'
    work(own, name, "failed")
    assert body_of(own, create(own, definition, due(3))) == '{"cursor":8}'
    # Without the option, and for an interval before all of these, there is no last output.
    assert body_of(own, create(own, define(name), due(4))) == '{"first":true}'
    assert body_of(own, create(own, definition, due(-1))) == '{"first":true}'


def test_every_digit_of_the_output_is_kept(own: Connection, name: str) -> None:
    definition = define(name, last_output=True)
    create(own, definition, due(0))
    work(own, name, "success", b'{"cursor": 12345678901234567890.123456789}')
    assert body_of(own, create(own, definition, due(1))) == '{"cursor":12345678901234567890.123456789}'


def test_an_output_that_is_no_object_is_a_rejected_work_order_that_says_so(own: Connection, name: str) -> None:
    definition = define(name, last_output=True)
    create(own, definition, due(0))
    work(own, name, "success", b"[1]")
    made = create(own, definition, due(1))
    assert made.state == "rejected"
    assert history.work_order(own, made.id or UUID(int=0)).reason == "not-an-object"


def test_an_output_that_cannot_be_read_is_a_rejected_work_order(own: Connection, name: str) -> None:
    definition = define(name, last_output=True)
    create(own, definition, due(0))
    work(own, name, "success", BEYOND_WORKERS)
    assert create(own, definition, due(1)).reason == "not-an-object"


@pytest.fixture
def run(stack: LocalStack, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the task as a worker does."""
    monkeypatch.setattr(cron_airflow, "database_url", lambda _: stack.database_url)

    def execute(**context: Any) -> str | None:
        operator = CreateScheduledOperator(task_id="create_work_order", definition=define(name))
        return operator.execute({"dag_run": SimpleNamespace(run_after=pendulum.instance(NINE)), **context})  # type: ignore[typeddict-item]

    return execute


def test_a_cleared_task_finds_its_work_order(run: Any, connection: Connection, name: str) -> None:
    # The class of times that Airflow gives.
    interval = {"data_interval_start": pendulum.instance(NINE - HOUR), "data_interval_end": pendulum.instance(NINE)}
    assert run(**interval) == run(**interval)
    assert len(keys(connection, triggers.find(connection, name))) == 1


def test_a_run_by_hand_is_an_event_of_its_own(run: Any, connection: Connection, name: str) -> None:
    by_schedule = run(data_interval_start=NINE - HOUR, data_interval_end=NINE)
    assert run() == run() != by_schedule
    assert [stream for stream, _ in keys(connection, triggers.find(connection, name))] == ["schedule", "by-hand"]
