"""What the plan starts, with a real broker and a real ledger, and an Airflow that is a table of runs."""

import json
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import pytest
from airflow.sdk.execution_time.comms import TriggerDagRun

from local_stack.ports import free_port
from local_stack.stack import LocalStack
from support import remembering_notifier
from support.dag_runs import DagRuns
from support.definitions import define
from support.lost_broker import LostBroker
from support.topics import Topics
from workorders.airflow.retries import UNLIMITED_RETRIES, unlimited_retries
from workorders.airflow.task_errors import TaskFailedError
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.airflow.plan_batch import PlanBatchOperator
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.ledger import batches, positions
from workorders.kafka.planning.planner import register

pytestmark = pytest.mark.integration


@dataclass
class Planning:
    """The third try of the task that plans, and Airflow's Dag runs."""

    try_number: ClassVar[int] = 3
    max_tries: ClassVar[int] = UNLIMITED_RETRIES

    name: str
    airflow: DagRuns
    fields: dict[str, Any] = field(default_factory=dict)
    """Of the trigger's file."""

    def started(self) -> list[int]:
        """Run the task; return the batches whose Dag run it started."""
        operator = PlanBatchOperator(
            task_id="plan",
            definition=define(self.name, **self.fields),
            ingest_dag_id="an_ingest",
            **unlimited_retries(),
        )
        found = [int(one.removeprefix("batch_")) for one in operator.execute({"ti": self})]  # type: ignore[typeddict-item]
        assert all(self.airflow.confs[f"batch_{batch}"] == {"batch_id": batch} for batch in found)
        return found

    def sentence(self) -> str:
        """Run the task, which fails, and return its sentence between its trigger and the next try."""
        with pytest.raises(TaskFailedError) as raised:
            self.started()
        sentence = str(raised.value)
        where, undone = f"Trigger {self.name}: ", "No offset was committed: messages wait in Kafka"
        assert sentence.startswith(where)
        assert undone in sentence
        assert sentence.endswith(" Next try in 4 s.")
        return sentence.removeprefix(where).partition(f" {undone}")[0]

    def end_run(self, batch: int, state: str) -> None:
        """Give the Dag run of a batch a state."""
        self.airflow.states[f"batch_{batch}"] = state

    def delete_run(self, batch: int) -> None:
        """Delete the Dag run of a batch."""
        del self.airflow.confs[f"batch_{batch}"]


@pytest.fixture
def planning(stack: LocalStack, topics: Topics, name: str, monkeypatch: pytest.MonkeyPatch) -> Planning:
    """A topic with messages, and what plans them."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": dict(stack.kafka_settings)})
    )
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", stack.database_url)
    topics.create(name, 3)
    topics.produce(name, [b"{}"] * 3)
    return Planning(name, DagRuns.in_place(monkeypatch))


@pytest.fixture
def batch(planning: Planning) -> int:
    """A batch that was planned, has its Dag run, and is not finished."""
    (planned,) = planning.started()
    return planned


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_batch_whose_run_is_active_is_left_to_it(planning: Planning, batch: int, state: str) -> None:
    planning.end_run(batch, state)
    assert planning.started() == []
    assert planning.airflow.cleared == []


def test_a_run_that_becomes_active_between_the_question_and_the_start_is_not_cleared(
    planning: Planning, batch: int, connection: Connection
) -> None:
    planning.end_run(batch, "failed")
    answered: list[str] = []

    def meanwhile() -> None:
        answered.append("a count")
        if len(answered) == 2:
            planning.end_run(batch, "running")

    planning.airflow.on_count = meanwhile
    assert planning.started() == []
    assert planning.airflow.cleared == []
    assert len(answered) > 1


def test_no_transaction_is_open_while_airflow_is_asked(
    stack: LocalStack, planning: Planning, batch: int, topics: Topics
) -> None:
    topics.produce(planning.name, [b"{}"], 1)
    asked: list[tuple[str, set[tuple[Any, ...]]]] = []

    def own(message: Any) -> bool:
        with connect(stack.database_url) as other:
            states = other.execute("SELECT state FROM pg_stat_activity WHERE application_name = 'workorders plan'")
            asked.append((type(message).__name__, set(states)))  # that of the batch before may still be ending
        return False

    planning.airflow.never_answers = own
    assert len(planning.started()) == 1
    assert asked == [("GetDRCount", {("idle",)}), ("TriggerDagRun", {("idle",)})]


def test_a_listener_that_dies_between_the_record_and_the_start_leaves_the_batch_to_the_next_one(
    planning: Planning, connection: Connection
) -> None:
    def die(_: Any) -> bool:
        raise SystemExit

    planning.airflow.never_answers = die
    with pytest.raises(SystemExit):
        planning.started()
    (left,) = batches.list_unfinished(connection, planning.name)
    connection.commit()
    planning.airflow.never_answers = lambda _: False
    assert planning.started() == [left]


def test_a_batch_whose_run_was_deleted_is_dispatched_again(planning: Planning, batch: int) -> None:
    assert planning.started() == []
    planning.delete_run(batch)
    assert planning.started() == [batch]


@pytest.mark.parametrize("state", ["failed", "success"])
def test_an_unfinished_batch_whose_run_has_ended_has_it_started_again(
    planning: Planning, batch: int, state: str
) -> None:
    planning.end_run(batch, state)
    assert planning.started() == [batch]
    assert planning.airflow.cleared == [f"batch_{batch}"]
    # The next try finds it active.
    assert planning.started() == []
    assert planning.airflow.cleared == [f"batch_{batch}"]


def test_a_batch_that_failed_is_not_started_before_its_next_try_is_due(
    planning: Planning, batch: int, connection: Connection
) -> None:
    planning.end_run(batch, "failed")
    planned = batches.load(connection, batch)
    epoch = positions.take_epoch(connection, batch)
    positions.stall(connection, planned.trigger, planned.ranges[0].range, epoch=epoch, error="no")
    connection.execute(
        "UPDATE workorders.kafka_ledger SET next_attempt_at = now() + interval '1 minute' WHERE trigger_id = %s",
        (planned.trigger.id,),
    )
    connection.commit()
    assert planning.started() == []


def test_what_was_left_goes_along_with_the_next_batch(
    planning: Planning, batch: int, topics: Topics, name: str
) -> None:
    planning.delete_run(batch)
    topics.produce(name, [b"{}"], 1)
    (left, new) = planning.started()
    assert left == batch
    assert new > batch


def test_a_run_that_airflow_refuses_delays_no_other_batch(
    planning: Planning, batch: int, topics: Topics, name: str
) -> None:
    planning.delete_run(batch)
    topics.produce(name, [b"{}"], 1)
    planning.airflow.never_answers = lambda message: getattr(message, "run_id", "") == f"batch_{batch}"
    assert f"the run batch_{batch} of Dag an_ingest was not started: API_SERVER_ERROR" in planning.sentence()
    assert list(planning.airflow.confs) == [f"batch_{batch + 1}"]
    planning.airflow.never_answers = lambda _: False
    assert planning.started() == [batch]


def test_an_airflow_that_answers_nothing_is_asked_twice_and_not_for_each_batch(
    planning: Planning, batch: int, topics: Topics, name: str
) -> None:
    topics.produce(name, [b"{}"], 1)
    (second,) = planning.started()
    planning.delete_run(batch)
    planning.delete_run(second)
    topics.produce(name, [b"{}"], 2)
    planning.airflow.asked.clear()
    planning.airflow.never_answers = lambda message: isinstance(message, TriggerDagRun)
    assert f"the run batch_{batch} of Dag an_ingest was not started" in planning.sentence()
    assert planning.airflow.asked == ["GetDRCount", "TriggerDagRun", "TriggerDagRun"]
    planning.airflow.never_answers = lambda _: False
    assert len(planning.started()) == 3


def test_a_broker_that_is_away_is_named_and_once_it_is_back_the_plan_is_made(
    stack: LocalStack, planning: Planning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workorders.kafka.airflow.plan_batch.KafkaAdmin", partial(KafkaAdmin, timeout_seconds=1.0))
    address = f"127.0.0.1:{free_port()}"
    with monkeypatch.context() as away:
        away.setenv(
            "AIRFLOW_CONN_KAFKA_DEFAULT",
            json.dumps({"conn_type": "kafka", "extra": {**stack.kafka_settings, "bootstrap.servers": address}}),
        )
        assert f"Kafka at {address} did not answer" in planning.sentence()
    assert len(planning.started()) == 1


def test_while_nothing_can_be_planned_the_stall_fails_one_task_and_causes_one_alert(
    planning: Planning, lost_broker: LostBroker, connection: Connection, cluster: KafkaAdmin
) -> None:
    """The broker with the only partition of the trigger is gone for good."""
    planning.fields = {
        "topics": [lost_broker.topic],
        "alert_after": 0,
        "notify": ["support.remembering_notifier.hear"],
    }
    trigger = register(connection, define(planning.name, **planning.fields))
    (partition,) = run(cluster.partitions([lost_broker.topic])).require()
    positions.insert(connection, trigger, partition, 5)
    connection.commit()
    remembering_notifier.alerts.clear()
    assert planning.sentence().startswith(f"{lost_broker.topic} 0: nothing was planned there. Kafka at ")
    (alert,) = remembering_notifier.alerts
    assert (alert.trigger, alert.topic, alert.next_offset) == (planning.name, lost_broker.topic, 5)
    assert not alert.cleared
    assert planning.started() == []
    assert remembering_notifier.alerts == [alert]
