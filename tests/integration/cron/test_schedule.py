from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import orjson
import pendulum
import pytest
from airflow.sdk.exceptions import AirflowFailException

from local_stack.stack import LocalStack
from support.runs import keeping
from support.unreadable import BEYOND_WORKERS
from support.work_orders import keys, remove
from workorders.core import triggers, workflows
from workorders.core.creation.create_one import CreateResult
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.history import work_orders
from workorders.core.postgres.connection import Connection
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.lifecycle import FinalState, RunResult
from workorders.core.workers import add_worker
from workorders.cron import airflow as cron_airflow
from workorders.cron.airflow import CreateScheduledOperator
from workorders.cron.definition import CronTriggerDefinition
from workorders.cron.schedule import Due, create

pytestmark = pytest.mark.integration

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)


def define(name: str, **fields: Any) -> CronTriggerDefinition:
    return CronTriggerDefinition.model_validate(
        {"name": name, "workflow": name, "schedule": "@hourly", "input": {"first": True}, **fields}
    )


def due(hours: int = 0) -> Due:
    return Due(start=NINE + (hours - 1) * HOUR, time=NINE + hours * HOUR)


def body_of(connection: Connection, made: CreateResult) -> str:
    assert made.id is not None
    body = work_orders.get_work_order(connection, made.id).body
    assert body is not None
    return "".join(body.split())


def work(connection: Connection, workflow: str, state: FinalState, output: bytes | None = None) -> None:
    """Do the oldest work order that waits; it ends so."""
    workflows.register(connection, WorkflowDefinition(name=workflow, dag_id="none"))
    found = workflows.find(connection, workflow)
    worker_id = add_worker(connection, found)
    (claimed,) = claiming.claim(connection, found, limit=1, worker_id=worker_id)
    lifecycle.start(connection, worker_id, [claimed.run_id])
    lifecycle.finish(connection, worker_id, [RunResult(run_id=claimed.run_id, state=state, output=output)])


@pytest.fixture
def own(connection: Connection) -> Connection:
    """A connection as the operator has it."""
    connection.autocommit = True
    return connection


def test_an_interval_makes_one_work_order_with_the_input_of_the_definition(own: Connection, name: str) -> None:
    made = create(own, define(name), due())
    again = create(own, define(name), due())
    assert made.created
    assert again == CreateResult(made.id, "pending", created=False)
    assert keys(own, triggers.find(own, name)) == [("schedule", int(NINE.timestamp()))]
    assert body_of(own, made) == '{"first":true}'
    request = work_orders.get_work_order(own, made.id or UUID(int=0)).request
    assert request is not None
    assert '"scheduled_for": "2026-03-01T09:00:00Z"' in request


def test_each_interval_has_its_own(own: Connection, name: str) -> None:
    assert [create(own, define(name), due(hour)).created for hour in range(3)] == [True] * 3


def test_the_last_successful_output_is_the_next_input(own: Connection, name: str) -> None:
    definition = define(name, use_last_output=True)
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


@pytest.mark.parametrize("interval", [due(1), Due(time=NINE + HOUR, key="click")], ids=["next", "manual"])
def test_the_next_run_and_a_manual_one_continue_from_the_last_output_with_every_digit(
    own: Connection, name: str, interval: Any
) -> None:
    definition = define(name, use_last_output=True)
    create(own, definition, due(0))
    work(own, name, "success", b'{"cursor": 12345678901234567890.123456789}')
    assert body_of(own, create(own, definition, interval)) == '{"cursor":12345678901234567890.123456789}'


def test_an_output_that_is_no_object_is_a_rejected_work_order_with_the_reason(own: Connection, name: str) -> None:
    definition = define(name, use_last_output=True)
    create(own, definition, due(0))
    work(own, name, "success", b"[1]")
    made = create(own, definition, due(1))
    assert made.state == "rejected"
    assert work_orders.get_work_order(own, made.id or UUID(int=0)).reason == "not-an-object"


def test_an_output_that_cannot_be_read_is_a_rejected_work_order(own: Connection, name: str) -> None:
    definition = define(name, use_last_output=True)
    create(own, definition, due(0))
    work(own, name, "success", BEYOND_WORKERS)
    assert create(own, definition, due(1)).reason == "not-an-object"


SCHEDULED = {
    "run_type": "scheduled",
    "run_id": "scheduled__2026-03-01T09:00:00+00:00",
    # The class of times that Airflow gives.
    "data_interval_start": pendulum.instance(NINE - HOUR),
    "data_interval_end": pendulum.instance(NINE),
}


@pytest.fixture
def run(stack: LocalStack, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the task of a Dag run as a worker does."""
    monkeypatch.setattr(cron_airflow, "database_url", lambda _: stack.database_url)

    def execute(*, run_type: str, run_id: str, **context: Any) -> str | None:
        operator = CreateScheduledOperator(task_id="create_work_order", definition=define(name))
        dag_run = SimpleNamespace(
            run_type=run_type,
            run_id=run_id,
            dag_id=f"{name}_cron",
            run_after=pendulum.instance(NINE),
            clear_number=context.pop("clears", 0),
            conf=context.pop("conf", None),
        )
        return operator.execute({"dag_run": dag_run, **context})  # type: ignore[typeddict-item]

    return execute


def test_a_cleared_task_finds_its_work_order(run: Any, connection: Connection, name: str) -> None:
    assert run(**SCHEDULED) == run(**SCHEDULED)
    assert len(keys(connection, triggers.find(connection, name))) == 1


def test_a_cleared_task_of_a_time_that_retention_may_have_deleted_creates_nothing(
    run: Any, connection: Connection, name: str
) -> None:
    """A time that is older still gets its work order, as when Airflow catches up."""
    made = run(**SCHEDULED)
    keeping(connection, name, delete_after="10d")
    assert run(**SCHEDULED, clears=1) == made
    trigger = triggers.find(connection, name)
    remove(connection, trigger, [int(NINE.timestamp())])
    connection.commit()
    with pytest.raises(AirflowFailException, match="Z has no work order and is older than the 10 days"):
        run(**SCHEDULED, clears=1)
    assert keys(connection, trigger) == []
    connection.commit()
    keeping(connection, name, delete_after="36500d")
    assert run(**SCHEDULED, clears=1) is not None


def test_a_backfill_takes_the_place_of_its_interval(run: Any) -> None:
    assert run(**SCHEDULED | {"run_type": "backfill", "run_id": "backfill__1"}) == run(**SCHEDULED)


def test_a_run_by_hand_is_an_event_of_its_own(run: Any, connection: Connection, name: str) -> None:
    by_schedule = run(**SCHEDULED)
    # Airflow's form sends the logical date "now", and Airflow infers the interval that was over last from it.
    by_hand = run(**SCHEDULED | {"run_type": "manual", "run_id": "manual__1"})
    assert by_hand == run(**SCHEDULED | {"run_type": "manual", "run_id": "manual__1"})
    by_another_dag = run(run_type="operator_triggered", run_id="another__1")
    assert len({by_schedule, by_hand, by_another_dag}) == 3
    found = [stream for stream, _ in keys(connection, triggers.find(connection, name))]
    assert found == ["schedule", None, None]


def test_a_run_by_hand_for_the_next_interval_does_not_take_its_place(run: Any, connection: Connection) -> None:
    by_hand = run(**SCHEDULED | {"run_type": "manual", "run_id": "manual__1"})
    by_schedule = run(**SCHEDULED)
    assert by_schedule not in {None, by_hand}


@pytest.mark.parametrize("run_type", ["manual", "backfill"])
def test_the_conf_of_a_dag_run_replaces_fields_of_the_input(run: Any, connection: Connection, run_type: str) -> None:
    id_ = UUID(run(**SCHEDULED | {"run_type": run_type, "run_id": "1"}, conf={"first": [None], "region": "north"}))
    found = work_orders.get_work_order(connection, id_)
    assert orjson.loads(found.body or "") == {"first": [None], "region": "north"}
    assert orjson.loads(found.request or "")["conf"] == {"first": [None], "region": "north"}


def test_the_conf_of_a_dag_run_goes_over_the_last_output_and_keeps_its_digits(own: Connection, name: str) -> None:
    definition = define(name, use_last_output=True)
    create(own, definition, due(0))
    work(own, name, "success", b'{"cursor": 12345678901234567890123, "page": 1}')
    made = create(own, definition, Due(time=NINE + HOUR, key="click", conf={"page": 2}))
    assert body_of(own, made) == '{"page":2,"cursor":12345678901234567890123}'


def test_two_clicks_within_a_second_are_two_events(run: Any) -> None:
    assert run(run_type="manual", run_id="manual__1") != run(run_type="manual", run_id="manual__2")
