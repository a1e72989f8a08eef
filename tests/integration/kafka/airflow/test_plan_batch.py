"""The batches that the plan dispatches, with a real broker and ledger, and an Airflow that is a table of runs."""

import json
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from local_stack.ports import free_port
from local_stack.stack import LocalStack
from support.definitions import define
from support.topics import Topics
from workorders.airflow.retries import UNLIMITED_RETRIES, unlimited_retries
from workorders.core.postgres.connection import Connection, connect
from workorders.kafka.airflow.operators import PlanBatchOperator
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.exceptions import NotPlannedError
from workorders.kafka.ledger import batches, positions

pytestmark = pytest.mark.integration


@dataclass
class Planning:
    """The third try of the task that plans, and the states of the ingest runs by their id."""

    try_number: ClassVar[int] = 3
    max_tries: ClassVar[int] = UNLIMITED_RETRIES

    name: str
    runs: dict[str, str] = field(default_factory=dict)
    airflow_is_away: bool = False

    def handed_over(self) -> list[tuple[int, bool]]:
        """Run the task; return the batches that it dispatches, and whether their run is started again."""
        operator = PlanBatchOperator(
            task_id="plan", definition=define(self.name), ingest_dag_id="an_ingest", **unlimited_retries()
        )
        found = operator.execute({"ti": self})  # type: ignore[typeddict-item]
        assert [one["trigger_run_id"] for one in found] == [f"batch_{one['conf']['batch_id']}" for one in found]
        return [(one["conf"]["batch_id"], one["reset_dag_run"]) for one in found]

    def sentence(self) -> str:
        """Run the task, which fails, and return its sentence between its trigger and the next try."""
        with pytest.raises(NotPlannedError) as raised:
            self.handed_over()
        sentence = str(raised.value)
        where, undone = f"Trigger {self.name}: ", "Nothing was dispatched, and no offset was committed"
        assert sentence.startswith(where)
        assert undone in sentence
        assert sentence.endswith(" Next try in 4 s.")
        return sentence.removeprefix(where).partition(f" {undone}")[0]

    def get_dr_count(self, *, dag_id: str, run_ids: list[str], states: list[str] | None = None) -> int:
        """Count runs as Airflow does."""
        assert dag_id == "an_ingest"
        if self.airflow_is_away:
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))
        return sum(self.runs.get(run) is not None and (not states or self.runs[run] in states) for run in run_ids)


@pytest.fixture
def planning(stack: LocalStack, topics: Topics, name: str, monkeypatch: pytest.MonkeyPatch) -> Planning:
    """A topic with messages, and what plans them."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": dict(stack.kafka_settings)})
    )
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", stack.database_url)
    topics.create(name, 2)
    topics.produce(name, [b"{}"] * 3)
    return Planning(name)


@pytest.fixture
def batch(planning: Planning) -> int:
    """A batch that was planned and is not finished."""
    ((planned, _),) = planning.handed_over()
    return planned


def test_a_new_batch_is_handed_over_as_a_new_run(planning: Planning) -> None:
    assert [again for _, again in planning.handed_over()] == [False]


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_batch_whose_run_is_at_work_is_left_to_it(
    planning: Planning, batch: int, connection: Connection, state: str
) -> None:
    planning.runs[f"batch_{batch}"] = state
    assert planning.handed_over() == []
    assert batches.load(connection, batch).handed_over_at is not None


def test_an_attempt_at_a_batch_does_not_wait_while_airflow_is_asked_for_the_runs_of_others(
    stack: LocalStack, planning: Planning, batch: int, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    planning.runs[f"batch_{batch}"] = "running"
    topics.produce(planning.name, [b"{}"], 1)
    asked: list[bool] = []
    count = planning.get_dr_count

    def slowly(*, dag_id: str, run_ids: list[str], states: list[str] | None = None) -> int:
        with connect(stack.database_url) as own:
            own.execute("SET LOCAL lock_timeout = '2s'")
            batches.mark_handed_over(own, [batch])
            asked.append(True)
            own.rollback()
        return count(dag_id=dag_id, run_ids=run_ids, states=states)

    monkeypatch.setattr(planning, "get_dr_count", slowly)
    assert [again for _, again in planning.handed_over()] == [False]
    assert len(asked) > 1


def test_a_batch_that_never_got_its_run_is_handed_over(planning: Planning, batch: int) -> None:
    assert planning.handed_over() == [(batch, False)]


def test_a_batch_whose_run_was_deleted_is_handed_over_again(planning: Planning, batch: int) -> None:
    planning.runs[f"batch_{batch}"] = "running"
    assert planning.handed_over() == []
    del planning.runs[f"batch_{batch}"]
    assert planning.handed_over() == [(batch, False)]


@pytest.mark.parametrize("state", ["failed", "success"])
def test_an_unfinished_batch_whose_run_has_ended_has_it_started_again(
    planning: Planning, batch: int, state: str
) -> None:
    planning.runs[f"batch_{batch}"] = state
    assert planning.handed_over() == [(batch, True)]


def test_a_batch_that_failed_is_not_handed_over_before_its_next_try_is_due(
    planning: Planning, batch: int, connection: Connection
) -> None:
    planning.runs[f"batch_{batch}"] = "failed"
    planned = batches.load(connection, batch)
    epoch = positions.take_epoch(connection, batch)
    positions.stall(
        connection, planned.trigger, planned.ranges[0].range.partition, epoch=epoch, error="no", delay_seconds=60
    )
    connection.commit()
    assert planning.handed_over() == []


def test_what_was_left_goes_along_with_the_next_batch(
    planning: Planning, batch: int, topics: Topics, name: str
) -> None:
    topics.produce(name, [b"{}"], 1)
    (left, new) = planning.handed_over()
    assert left == (batch, False)
    assert new[0] > batch


def test_a_broker_that_is_away_is_named_and_once_it_is_back_the_plan_is_made(
    stack: LocalStack, planning: Planning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workorders.kafka.airflow.operators.KafkaAdmin", partial(KafkaAdmin, timeout_seconds=1.0))
    address = f"127.0.0.1:{free_port()}"
    with monkeypatch.context() as away:
        away.setenv(
            "AIRFLOW_CONN_KAFKA_DEFAULT",
            json.dumps({"conn_type": "kafka", "extra": {**stack.kafka_settings, "bootstrap.servers": address}}),
        )
        assert f"Kafka at {address} did not answer" in planning.sentence()
    assert len(planning.handed_over()) == 1


def test_wrong_credentials_are_sentence_without_the_password(
    stack: LocalStack, planning: Planning, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("workorders.kafka.airflow.operators.KafkaAdmin", partial(KafkaAdmin, timeout_seconds=3.0))
    wrong = {**stack.kafka.sasl_settings, "sasl.password": "wrong-password"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": wrong}))
    sentence = planning.sentence()
    assert "check the credentials and permissions of the Airflow Kafka connection" in sentence
    assert "wrong-password" not in sentence + "".join(capfd.readouterr())


def test_a_database_that_is_away_is_named_without_its_password(
    planning: Planning, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", f"postgresql://a:secret@127.0.0.1:{port}/a")
    sentence = planning.sentence()
    assert sentence.startswith(f'Postgres: connection failed: connection to server at "127.0.0.1", port {port} failed')
    assert "secret" not in sentence


@pytest.mark.parametrize("connection_id", ["kafka_default", "workorders_db"])
def test_a_connection_that_is_missing_is_named(
    planning: Planning, monkeypatch: pytest.MonkeyPatch, connection_id: str
) -> None:
    monkeypatch.delenv(f"AIRFLOW_CONN_{connection_id.upper()}")
    assert (
        planning.sentence()
        == f"The conn_id `{connection_id}` isn't defined: define this connection in Airflow. [WO-CONNECTION-UNDEFINED]"
    )


def test_an_airflow_that_does_not_say_which_runs_there_are_leaves_the_planned_batch_to_the_next_try(
    planning: Planning,
) -> None:
    planning.airflow_is_away = True
    assert "API_SERVER_ERROR" in planning.sentence()
    planning.airflow_is_away = False
    assert [again for _, again in planning.handed_over()] == [False]
