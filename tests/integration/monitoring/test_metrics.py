"""The metrics of a real database."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from local_stack.stack import LocalStack
from support.executing import Executing
from support.ingesting import attempt, attempts, look, no_proof, partition_of, plan, same_log
from support.work_orders import accepted_range, rejected
from workorders.core.history import work_orders
from workorders.core.maintenance.retention import delete_expired
from workorders.core.metrics import Reading, readings, take_samples
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.ingest.transaction import ingest
from workorders.kafka.ledger import batches, positions, stalls
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange
from workorders.outbox.enqueue import publish

pytestmark = pytest.mark.integration

Read = Callable[..., float | None]
LARGE = {"work_orders", "runs", "kafka_ranges", "kafka_batches", "outbox_messages", "kafka_lag_samples"}


@pytest.fixture
def read(connection: Connection) -> Read:
    """Reads one metric with some of its labels; None if it has no value."""

    def find(name: str, **labels: str) -> float | None:
        values = [
            sample.value
            for sample in take_samples(connection)
            if sample.metric.name == name and labels.items() <= dict(sample.labels).items()
        ]
        connection.rollback()
        assert len(values) < 2, (name, labels)
        return values[0] if values else None

    return find


@pytest.fixture
def planned(connection: Connection, trigger: Trigger) -> OffsetRange:
    """A batch of ten messages, which is not ingested."""
    range_ = OffsetRange(partition_of(trigger.name), 100, 110)
    plan(connection, trigger, range_)
    return range_


def see(connection: Connection, trigger: Trigger, last_stable: int, *, ago: timedelta = timedelta()) -> None:
    look(connection, trigger.name, {partition_of(trigger.name): last_stable}, ago=ago)


def move(connection: Connection, trigger: Trigger, next_offset: int) -> None:
    """Let the ledger be at an offset."""
    connection.execute(
        "UPDATE workorders.kafka_ledger SET next_offset = %s WHERE trigger_id = %s", (next_offset, trigger.id)
    )
    connection.commit()


def place(trigger: Trigger) -> Mapping[str, str]:
    return {"trigger": trigger.name, "topic": trigger.name, "partition": "0"}


@pytest.mark.usefixtures("planned")
def test_the_lag_is_from_the_ledger_to_the_end_that_the_listener_saw_last(
    connection: Connection, trigger: Trigger, read: Read
) -> None:
    assert read("workorders.ingest.lag", **place(trigger)) is None
    see(connection, trigger, 105)
    see(connection, trigger, 130)
    assert read("workorders.ingest.lag", **place(trigger)) == 30
    move(connection, trigger, 120)
    assert read("workorders.ingest.lag", **place(trigger)) == 10
    assert read("workorders.ingest.poll_age", trigger=trigger.name) == pytest.approx(0, abs=60)


@pytest.mark.usefixtures("planned")
def test_a_lag_that_nobody_looks_at_has_no_value_and_the_look_has_an_age(
    connection: Connection, trigger: Trigger, read: Read
) -> None:
    see(connection, trigger, 130, ago=timedelta(minutes=3))
    assert read("workorders.ingest.lag", **place(trigger)) is None
    assert read("workorders.ingest.poll_age", trigger=trigger.name) == pytest.approx(180, abs=60)


@pytest.mark.usefixtures("planned")
def test_the_oldest_message_came_after_the_last_look_that_saw_none(
    connection: Connection, trigger: Trigger, read: Read
) -> None:
    for minutes, end in ((50, 100), (40, 110), (30, 120), (0, 130)):
        see(connection, trigger, end, ago=timedelta(minutes=minutes))
    assert read("workorders.ingest.oldest_age", **place(trigger)) == pytest.approx(3000, abs=60)
    assert read("workorders.ingest.no_progress_age", **place(trigger)) == pytest.approx(3000, abs=60)
    move(connection, trigger, 115)
    assert read("workorders.ingest.oldest_age", **place(trigger)) == pytest.approx(2400, abs=60)
    assert read("workorders.ingest.no_progress_age", **place(trigger)) == pytest.approx(0, abs=60)
    move(connection, trigger, 130)
    assert read("workorders.ingest.oldest_age", **place(trigger)) == 0
    assert read("workorders.ingest.no_progress_age", **place(trigger)) == 0


@pytest.mark.usefixtures("planned")
def test_what_was_seen_of_a_topic_before_it_was_re_created_does_not_count(
    connection: Connection, trigger: Trigger, read: Read
) -> None:
    see(connection, trigger, 900)
    connection.execute("UPDATE workorders.kafka_ledger SET topic_id = 'other' WHERE trigger_id = %s", (trigger.id,))
    connection.commit()
    assert read("workorders.ingest.lag", **place(trigger)) is None


@pytest.mark.usefixtures("planned")
def test_old_samples_are_deleted_with_retention(connection: Connection, trigger: Trigger) -> None:
    see(connection, trigger, 130, ago=timedelta(hours=30))
    see(connection, trigger, 130)
    assert not positions.delete_old_samples(connection, datetime.now(UTC))
    rows = connection.execute("SELECT FROM workorders.kafka_lag_samples WHERE trigger_id = %s", (trigger.id,))
    assert len(rows.fetchall()) == 1


def outcomes(read: Read, trigger: Trigger) -> dict[str, float | None]:
    words = ("created", "rejected", "existing", "filtered")
    return {word: read("workorders.ingest.messages", trigger=trigger.name, outcome=word) for word in words}


def test_messages_are_counted_once_by_outcome_and_a_replay_counts_nothing(
    stack: LocalStack, connection: Connection, trigger: Trigger, read: Read
) -> None:
    range_ = OffsetRange(partition_of(trigger.name), 100, 110)
    batch_id, stream = plan(connection, trigger, range_), stream_name(range_.partition)
    for _ in range(2):
        items = [*accepted_range(stream, 100, 109), rejected(stream, 109)]
        with connect(stack.database_url) as own:
            ingest(own, attempt(connection, batch_id), items, no_proof, same_log)
        assert outcomes(read, trigger) == {"created": 9, "rejected": 1, "existing": 0, "filtered": 0}
    assert read("workorders.ingest.range.duration", trigger=trigger.name, percentile="50") == pytest.approx(0, abs=60)


def test_virtual_partitions_count_once_as_well(
    stack: LocalStack, connection: Connection, trigger: Trigger, read: Read
) -> None:
    range_ = OffsetRange(partition_of(trigger.name), 100, 110)
    batch_id, stream = plan(connection, trigger, range_, cut_at=[104, 107]), stream_name(range_.partition)
    first, middle, last = attempts(connection, batch_id)
    for made in (first, last, middle):  # the ledger moves twice
        with connect(stack.database_url) as own:
            ingest(own, made, accepted_range(stream, made.range.start, made.range.end), no_proof, same_log)
    assert outcomes(read, trigger) == {"created": 10, "rejected": 0, "existing": 0, "filtered": 0}


@pytest.mark.usefixtures("planned")
def test_a_stall_is_counted_and_has_an_age(connection: Connection, trigger: Trigger, read: Read) -> None:
    assert read("workorders.ingest.stalled", trigger=trigger.name) == 0
    assert read("workorders.ingest.stall_age", **place(trigger)) == 0
    (row,) = connection.execute(
        "SELECT max(id) FROM workorders.kafka_batches WHERE trigger_id = %s", (trigger.id,)
    ).fetchone() or (0,)
    made = attempt(connection, row)
    stalls.record_unexplained(connection, batches.load(connection, row), made.epoch, "a test")
    connection.execute(
        "UPDATE workorders.kafka_ledger SET status_since = now() - interval '1 h' WHERE trigger_id = %s", (trigger.id,)
    )
    connection.commit()
    assert read("workorders.ingest.stalled", trigger=trigger.name) == 1
    assert read("workorders.ingest.stall_age", **place(trigger)) == pytest.approx(3600, abs=60)


def test_runs_have_states_durations_and_waits(stack: LocalStack, connection: Connection, name: str, read: Read) -> None:
    work = Executing(stack.database_url, name)
    work.create([{"do": "echo"}, {"do": "fail"}, {"do": "echo"}])
    assert read("workorders.runs.waiting", workflow=name) == 3
    assert read("workorders.runs.oldest_wait", workflow=name) == pytest.approx(0, abs=60)
    work.worker().work()
    assert read("workorders.runs.waiting", workflow=name) == 0
    assert read("workorders.runs.running", workflow=name) == 0
    states = {state: read("workorders.runs.recent", workflow=name, state=state) for state in ("success", "failed")}
    assert states == {"success": 2, "failed": 1}, work.states()
    for metric in ("workorders.run.duration", "workorders.run.wait"):
        assert read(metric, workflow=name, percentile="100") == pytest.approx(0, abs=60)
    work_orders.refresh_counts(connection, even_if_recent=True)
    assert read("workorders.work_orders", workflow=name, state="failed") == 1
    assert read("workorders.work_orders.count_age") == pytest.approx(0, abs=60)


@pytest.fixture
def outbox(connection: Connection, name: str) -> Iterator[None]:
    """Twenty messages, one of which has waited for an hour, and a hold."""
    for number in range(20):
        publish(connection, name, {"number": number}, key=f"key-{number}")
    connection.execute(
        """
        UPDATE workorders.outbox_messages SET enqueued_at = now() - interval '1 h'
        WHERE id = (SELECT min(id) FROM workorders.outbox_messages WHERE topic = %s)
        """,
        (name,),
    )
    connection.execute(
        "INSERT INTO workorders.outbox_holds (kind, topic, reason) VALUES ('topic', %s, 'a test')", (name,)
    )
    connection.execute(
        "INSERT INTO workorders.outbox_counters (topic, shard, sent) VALUES (%s, 0, 5), (%s, 1, 6)", (name, name)
    )
    connection.commit()
    yield
    for table in ("outbox_messages", "outbox_holds", "outbox_counters"):
        connection.execute(f"DELETE FROM workorders.{table} WHERE topic = %s", (name,))
    connection.commit()


@pytest.mark.usefixtures("outbox")
def test_the_outbox_has_a_backlog_a_delay_and_holds(connection: Connection, name: str, read: Read) -> None:
    assert read("workorders.outbox.waiting", topic=name) == 20
    assert read("workorders.outbox.delay", topic=name) == pytest.approx(3600, abs=60)
    assert read("workorders.outbox.holds", topic=name, kind="topic") == 1
    assert read("workorders.outbox.messages", topic=name, outcome="sent") == 11
    connection.execute("DELETE FROM workorders.outbox_messages WHERE topic = %s", (name,))
    connection.commit()
    assert read("workorders.outbox.waiting", topic=name) == 0
    assert read("workorders.outbox.delay", topic=name) == 0


def test_the_end_of_retention_has_an_age(stack: LocalStack, read: Read) -> None:
    with connect(stack.database_url) as own:
        delete_expired(own, pause=lambda _: None)
    assert read("workorders.retention.run_age") == pytest.approx(0, abs=60)


def whole_reads(node: Mapping[str, Any]) -> Iterator[str]:
    """Give the tables that a plan reads from beginning to end."""
    if node["Node Type"] == "Seq Scan":
        yield node["Relation Name"]
    for child in node.get("Plans", ()):
        yield from whole_reads(child)


@pytest.mark.parametrize("reading", readings(), ids=lambda reading: reading.metrics[0].name)
def test_no_query_needs_to_read_a_large_table_as_a_whole(connection: Connection, reading: Reading) -> None:
    # Small tables are read as a whole. With this, a plan reads one so only if no index fits.
    connection.execute("SET LOCAL enable_seqscan = off")
    ((plan_,),) = connection.execute(f"EXPLAIN (FORMAT JSON) {reading.query}").fetchall()
    assert set(whole_reads(plan_[0]["Plan"])) & LARGE == set()
