"""What the plan hands over, with a real broker and a real ledger, and an Airflow that is a table of runs."""

import json
from dataclasses import dataclass, field

import pytest

from local_stack.stack import LocalStack
from support.definitions import define
from support.topics import Topics
from workorders.core.database import Connection
from workorders.kafka import batches, ledger
from workorders.kafka.airflow.operators import PlanBatchOperator

pytestmark = pytest.mark.integration


@dataclass
class Planning:
    """The task that plans, and the states of the ingest runs by their id."""

    name: str
    runs: dict[str, str] = field(default_factory=dict)

    def handed_over(self) -> list[tuple[int, bool]]:
        """Run the task; return the batches that it hands over, and whether their run is started again."""
        operator = PlanBatchOperator(task_id="plan", definition=define(self.name), ingest_dag_id="an_ingest")
        found = operator.execute({"ti": self})  # type: ignore[arg-type, typeddict-item]
        assert [one["trigger_run_id"] for one in found] == [f"batch_{one['conf']['batch_id']}" for one in found]
        return [(one["conf"]["batch_id"], one["reset_dag_run"]) for one in found]

    def get_dr_count(self, *, dag_id: str, run_ids: list[str], states: list[str] | None = None) -> int:
        """Count runs as Airflow does."""
        assert dag_id == "an_ingest"
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
    epoch = ledger.take_epoch(connection, batch)
    ledger.stall(
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
