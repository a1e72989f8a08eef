"""What the ingest task does about stalls: records each, and reports what is due in log, metrics and notifiers."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from airflow.sdk.observability import stats

from local_stack.ports import free_port
from local_stack.stack import LocalStack
from support.definitions import define
from support.ingesting import finish, partition_of, plan, row
from support.spark_submit import replace_spark_submit
from support.stalling import let_it_last
from support.topics import Topics
from support.tries import a_try
from workorders.airflow.retries import unlimited_retries
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.airflow import create_work_orders
from workorders.kafka.airflow.create_work_orders import CreateWorkOrdersOperator
from workorders.kafka.client import admin
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.exceptions import StalledError
from workorders.kafka.ingest.ingest_attempt import IngestAttempt, ingest_attempt
from workorders.kafka.ledger import batches
from workorders.kafka.ledger.positions import PartitionStatus
from workorders.kafka.ledger.stalls import Alert
from workorders.kafka.partitions import OffsetRange

pytestmark = pytest.mark.integration

HOUR = 3600.0
CONTEXT: Any = a_try()


class Metrics:
    """Keeps what is counted and measured."""

    def __init__(self) -> None:
        self.counts: list[tuple[str, Any]] = []
        self.gauges: dict[tuple[str, str | None], float] = {}

    def incr(self, stat: str, tags: Any = None, **_: Any) -> None:
        self.counts.append((stat, tags))

    def gauge(self, stat: str, value: float, tags: Any = None, **_: Any) -> None:
        self.gauges[stat, (tags or {}).get("trigger")] = value


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    made = Metrics()
    stats.initialize(factory=lambda: made, export_legacy_names=False)  # type: ignore[arg-type, return-value]
    yield made
    stats.initialize(factory=Metrics, export_legacy_names=False)  # type: ignore[arg-type]


@pytest.fixture
def alerts(monkeypatch: pytest.MonkeyPatch) -> list[Alert]:
    """What a notifier was called with, next to one that always fails."""
    seen: list[Alert] = []

    def broken(_: Alert) -> None:
        raise RuntimeError("the pager is broken")

    module: Any = ModuleType("pagers")
    module.page, module.broken = seen.append, broken
    monkeypatch.setitem(sys.modules, "pagers", module)
    return seen


@dataclass
class Ingest:
    """The ingest task of one batch, and what is seen of it."""

    connection: Connection
    operator: CreateWorkOrdersOperator
    batch_id: int
    alerts: list[Alert]
    metrics: Metrics

    def attempt(self) -> str:
        """Make one attempt, which fails, and return its sentence."""
        self.operator.batch_id = self.batch_id
        with pytest.raises(StalledError) as raised:
            self.operator.execute(CONTEXT)
        return str(raised.value)

    @property
    def trigger(self) -> Trigger:
        """The batch's trigger."""
        return batches.load(self.connection, self.batch_id).trigger

    @property
    def row(self) -> PartitionStatus:
        """The ledger row of the batch's partition."""
        found = row(self.connection, self.trigger)
        self.connection.rollback()
        return found

    def last(self, seconds: float) -> None:
        """Let the stall have begun so much earlier."""
        let_it_last(self.connection, self.trigger, seconds)

    def finish(self) -> None:
        """Let the range be ingested after all."""
        (range_,) = batches.load(self.connection, self.batch_id).ranges
        finish(self.connection, self.batch_id, range_.range)
        self.connection.commit()


def connect_kafka(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"conn_type": "kafka", "extra": settings}))


@pytest.fixture
def operator(stack: LocalStack, monkeypatch: pytest.MonkeyPatch, name: str) -> CreateWorkOrdersOperator:
    """A task whose Kafka cluster is away."""
    connect_kafka(
        monkeypatch,
        {"bootstrap.servers": f"127.0.0.1:{free_port()}", "socket.connection.setup.timeout.ms": "1000"},
    )
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", stack.database_url)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    monkeypatch.setattr(admin, "KafkaAdmin", partial(KafkaAdmin, timeout_seconds=1.0))
    return CreateWorkOrdersOperator(
        task_id="create_work_orders",
        definition=define(name, alert_after=HOUR, notify=["pagers.broken", "pagers.page", "pagers.missing"]),
        application="none.py",
        **unlimited_retries(),
    )


@pytest.fixture
def create(
    connection: Connection, trigger: Trigger, operator: CreateWorkOrdersOperator, alerts: list[Alert], metrics: Metrics
) -> Ingest:
    """The task of a batch whose Kafka cluster is away."""
    batch_id = plan(connection, trigger, OffsetRange(partition_of(trigger.name), 100, 110))
    return Ingest(connection, operator, batch_id, alerts, metrics)


def test_a_long_stall_is_alerted_once_in_log_metrics_and_notifiers_and_so_is_its_end(
    create: Ingest, capfd: pytest.CaptureFixture[str]
) -> None:
    create.attempt()
    create.last(HOUR)
    for _ in range(3):
        create.attempt()
    (alert,) = create.alerts
    trigger = create.trigger.name
    assert (alert.topic, alert.partition, alert.attempts, alert.cleared) == (trigger, 0, 2, False)
    tags = {"trigger": trigger, "topic": trigger, "partition": "0"}
    assert create.metrics.counts == [("workorders.stalls_alerted", tags)]
    # A task ends, and a gauge that it sets would keep its last value.
    assert create.metrics.gauges == {}
    output = "".join(capfd.readouterr())
    assert output.count(f"Alert: {alert.sentence}") == 1
    assert "The notifier pagers.broken failed: RuntimeError: the pager is broken" in output
    assert output.count("The notifier pagers.missing cannot be imported") == 4

    create.finish()
    for _ in range(2):
        create.attempt()
    assert [seen.cleared for seen in create.alerts] == [False, True]
    assert create.metrics.counts[1:] == [("workorders.stalls_resolved", tags)]
    assert "".join(capfd.readouterr()).count(f"Alert: {create.alerts[1].sentence}") == 1


def test_an_alert_is_sent_when_the_connection_that_holds_the_batch_is_closed(
    create: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[IngestAttempt] = []
    were_closed: list[bool] = []

    @contextmanager
    def noted(*given: Any, **named: Any) -> Iterator[IngestAttempt]:
        with ingest_attempt(*given, **named) as attempt:
            attempts.append(attempt)
            yield attempt

    monkeypatch.setattr(create_work_orders, "ingest_attempt", noted)
    monkeypatch.setattr("pagers.page", lambda _: were_closed.append(attempts[-1].database.closed))
    create.attempt()
    create.last(HOUR)
    create.attempt()
    assert were_closed == [True]


@pytest.fixture
def readable(
    stack: LocalStack, topics: Topics, cluster: KafkaAdmin, create: Ingest, monkeypatch: pytest.MonkeyPatch
) -> Ingest:
    """The task of a batch whose messages are there."""
    topic = f"{create.trigger.name}-there"
    topics.create(topic)
    topics.produce(topic, [b"{}"] * 5)
    (partition,) = run(cluster.partitions([topic])).require()
    with create.connection.transaction():
        create.connection.execute("DELETE FROM workorders.kafka_ranges WHERE batch_id = %s", (create.batch_id,))
        create.connection.execute("DELETE FROM workorders.kafka_ledger WHERE trigger_id = %s", (create.trigger.id,))
    create.batch_id = plan(create.connection, create.trigger, OffsetRange(partition, 0, 5))
    connect_kafka(monkeypatch, dict(stack.kafka_settings))
    monkeypatch.setattr(admin, "KafkaAdmin", KafkaAdmin)
    return create


def test_an_application_that_dies_without_a_word_is_a_stall_with_the_end_of_its_submission(
    readable: Ingest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    replace_spark_submit(monkeypatch, tmp_path, "exit 137")
    failure = "The Spark application failed: spark-submit ended with exit code 137, and printed no reason"
    assert failure in readable.attempt()
    assert readable.row.status == "stalled"
    assert str(readable.row.last_error).endswith(f": {failure}; nothing was committed there.")
    readable.last(HOUR)
    # Nor does a machine without Spark hide it.
    (tmp_path / "spark-submit").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    readable.attempt()
    missing = f"Nothing was submitted: spark-submit was found neither next to {tmp_path}/python nor on the PATH"
    assert missing in str(readable.row.last_error)
    assert len(readable.alerts) == 1
    assert readable.row.attempts == 2


def test_without_its_database_the_task_still_fails_with_its_own_sentence(
    create: Ingest, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", f"postgresql://a:secret@127.0.0.1:{free_port()}/a")
    sentence = create.attempt()
    assert sentence.startswith(f"Trigger {create.trigger.name}, batch {create.batch_id}: ")
    assert sentence.endswith("Next try in 1 s.")
    output = "".join(capfd.readouterr())
    assert "secret" not in output
    assert create.alerts == []
