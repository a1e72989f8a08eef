"""What retention deleted does not come back, whichever way a range is read again.

The workflow keeps errors for longer, and so the batches, which can be replayed after most work orders are deleted.
"""

from datetime import UTC, datetime, timedelta

import pytest

from support.ingesting import attempt, attempts, no_proof, partition_of, plan, same_log
from support.runs import finish_all, keeping
from support.work_orders import accepted, accepted_range, positions, remove
from workorders.core import triggers
from workorders.core.creation.work_orders import Created
from workorders.core.items import Item
from workorders.core.maintenance import retention
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.exceptions import DataLostError
from workorders.kafka.ingest.record_mapping import FILTERED
from workorders.kafka.ingest.transaction import ingest
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange, Partition

pytestmark = pytest.mark.integration


@pytest.fixture
def trigger(connection: Connection, name: str) -> Trigger:
    trigger = triggers.register(connection, name=name, type_="kafka", workflow=name, definition={})
    connection.commit()
    return trigger


@pytest.fixture
def planned(connection: Connection, name: str) -> OffsetRange:
    keeping(connection, name, days=10, keep_errors_days=100)
    return OffsetRange(partition_of(name), 100, 110)


@pytest.fixture
def batch_id(connection: Connection, trigger: Trigger, planned: OffsetRange) -> int:
    """A batch of ten messages, whose work orders ended well and were deleted but for the last two."""
    batch_id = plan(connection, trigger, planned)
    items = accepted_range(stream_name(planned.partition), 100, 110)
    ingest(connection, attempt(connection, batch_id), items, no_proof, same_log)
    finish_all(connection, trigger.workflow)
    connection.execute(
        "UPDATE workorders.work_orders SET state = 'failed' WHERE trigger_id = %s AND position >= 108", (trigger.id,)
    )
    connection.execute(
        "UPDATE workorders.work_orders SET created_at = created_at + interval '5 days' WHERE trigger_id = %s AND "
        "position >= 108",
        (trigger.id,),
    )
    connection.commit()
    retention.delete_expired(connection, now=datetime.now(UTC) + timedelta(days=11), pause=lambda _: None)
    return batch_id


def test_a_replay_creates_nothing_that_was_deleted(
    connection: Connection, trigger: Trigger, planned: OffsetRange, batch_id: int
) -> None:
    stream = stream_name(planned.partition)
    assert positions(connection, trigger, stream) == [108, 109]
    connection.commit()
    items = accepted_range(stream, 100, 110)
    created = ingest(connection, attempt(connection, batch_id), items, no_proof, same_log)
    assert created == Created(0, 0, 10)
    assert positions(connection, trigger, stream) == [108, 109]


def test_a_replay_misses_nothing_that_was_deleted_when_kafka_has_it_no_longer(
    connection: Connection, trigger: Trigger, planned: OffsetRange, batch_id: int
) -> None:
    stream = stream_name(planned.partition)
    replay = attempt(connection, batch_id, read_from=105)
    created = ingest(connection, replay, accepted_range(stream, 105, 110), no_proof, same_log)
    assert created == Created(0, 0, 5)
    remove(connection, trigger, [109])
    connection.commit()
    with pytest.raises(DataLostError, match="1 of the 10 messages"):
        ingest(connection, attempt(connection, batch_id, read_from=110), [], no_proof, same_log)


def test_a_partition_that_starts_over_creates_nothing_that_was_deleted(
    connection: Connection, trigger: Trigger, planned: OffsetRange, batch_id: int
) -> None:
    connection.execute("UPDATE workorders.kafka_ledger SET next_offset = 100 WHERE trigger_id = %s", (trigger.id,))
    connection.commit()
    range_ = OffsetRange(planned.partition, 100, 105)
    again = plan(connection, trigger, range_)
    stream = stream_name(planned.partition)
    items = accepted_range(stream, 100, 105)
    assert ingest(connection, attempt(connection, again), items, no_proof, same_log) == Created(0, 0, 5)


def deleted(connection: Connection, trigger: Trigger) -> list[tuple[int, int, int]]:
    return connection.execute(
        """
        SELECT from_position, to_position, work_orders
        FROM workorders.deleted_positions JOIN workorders.source_streams ON source_streams.id = stream_id
        WHERE trigger_id = %s ORDER BY 1
        """,
        (trigger.id,),
    ).fetchall()


def sweep(connection: Connection, step: int = 7) -> None:
    connection.commit()
    retention.delete_expired(connection, now=datetime.now(UTC) + timedelta(days=11), step=step, pause=lambda _: None)


def ingested(connection: Connection, trigger: Trigger, partition: Partition, start: int, end: int) -> int:
    """Ingest a batch of a transactional topic: each message is followed by the marker of its transaction."""
    batch_id = plan(connection, trigger, OffsetRange(partition, start, end))
    items = [accepted(stream_name(partition), place) for place in range(start, end, 2)]
    ingest(connection, attempt(connection, batch_id), items, lambda _: None, same_log)
    finish_all(connection, trigger.workflow)
    return batch_id


@pytest.fixture
def partition(connection: Connection, name: str) -> Partition:
    keeping(connection, name, days=10, keep_errors_days=100)
    return partition_of(name)


def test_what_was_deleted_of_a_transactional_topic_is_a_row_a_batch(
    connection: Connection, trigger: Trigger, partition: Partition
) -> None:
    first, second = (ingested(connection, trigger, partition, start, start + 100) for start in (0, 100))
    sweep(connection)
    assert deleted(connection, trigger) == [(0, 100, 50), (100, 200, 50)]
    stream = stream_name(partition)
    again = [accepted(stream, place) for place in range(100, 200, 2)]
    replay = attempt(connection, second)
    assert ingest(connection, replay, again, lambda _: None, same_log) == Created(0, 0, 50)
    # Kafka has none of them any more: nevertheless none is missing.
    gone = attempt(connection, first, read_from=100)
    assert ingest(connection, gone, [], no_proof, same_log) == Created(0, 0, 0)
    assert positions(connection, trigger, stream) == []


def test_a_replay_of_virtual_partitions_creates_nothing_that_was_deleted(
    connection: Connection, trigger: Trigger, partition: Partition
) -> None:
    stream = stream_name(partition)
    batch_id = plan(connection, trigger, OffsetRange(partition, 0, 100), cut_at=(50,))
    for part in attempts(connection, batch_id):
        items = [accepted(stream, place) for place in range(part.range.start, part.range.end, 2)]
        ingest(connection, part, items, lambda _: None, same_log)
    finish_all(connection, trigger.workflow)
    sweep(connection)
    assert deleted(connection, trigger) == [(0, 50, 25), (50, 100, 25)]
    whole = [accepted(stream, place) for place in range(0, 100, 2)]
    replay = attempt(connection, batch_id)
    assert ingest(connection, replay, whole, lambda _: None, same_log) == Created(0, 0, 50)
    assert positions(connection, trigger, stream) == []


def test_a_work_order_that_was_lost_and_not_deleted_is_restored_behind_retention(
    connection: Connection, trigger: Trigger, partition: Partition
) -> None:
    """Where it was, is a gap like those of the markers."""
    batch_id = ingested(connection, trigger, partition, 0, 20)
    remove(connection, trigger, [6])
    sweep(connection)
    assert [row[2] for row in deleted(connection, trigger)] == [1] * 9
    with pytest.raises(DataLostError, match="1 of the 10 messages"):
        ingest(connection, attempt(connection, batch_id, read_from=20), [], no_proof, same_log)
    items = [accepted(stream_name(partition), place) for place in range(0, 20, 2)]
    replay = attempt(connection, batch_id)
    assert ingest(connection, replay, items, lambda _: None, same_log) == Created(1, 0, 9)
    assert positions(connection, trigger, stream_name(partition)) == [6]
    finish_all(connection, trigger.workflow)
    sweep(connection)
    assert deleted(connection, trigger) == [(0, 20, 10)]


def test_what_an_operator_jumped_over_is_created_when_he_goes_back_behind_retention(
    connection: Connection, trigger: Trigger, partition: Partition
) -> None:
    ingested(connection, trigger, partition, 0, 20)
    connection.execute("UPDATE workorders.kafka_ledger SET next_offset = 40 WHERE trigger_id = %s", (trigger.id,))
    ingested(connection, trigger, partition, 40, 60)
    sweep(connection)
    assert deleted(connection, trigger) == [(0, 20, 10), (40, 60, 10)]
    connection.execute("UPDATE workorders.kafka_ledger SET next_offset = 10 WHERE trigger_id = %s", (trigger.id,))
    connection.commit()
    batch_id = plan(connection, trigger, OffsetRange(partition, 10, 50))
    items = [accepted(stream_name(partition), place) for place in range(10, 50, 2)]
    created = ingest(connection, attempt(connection, batch_id), items, lambda _: None, same_log)
    assert created == Created(10, 0, 10)
    assert positions(connection, trigger, stream_name(partition)) == list(range(20, 40, 2))


def test_what_a_filter_left_out_is_created_with_another_filter_behind_retention(
    connection: Connection, trigger: Trigger, partition: Partition
) -> None:
    stream = stream_name(partition)
    batch_id = plan(connection, trigger, OffsetRange(partition, 0, 10))
    items = [Item(stream, place, b"", None, FILTERED) if place % 2 else accepted(stream, place) for place in range(10)]
    ingest(connection, attempt(connection, batch_id), items, no_proof, same_log)
    finish_all(connection, trigger.workflow)
    sweep(connection)
    connection.execute("UPDATE workorders.kafka_ledger SET next_offset = 0 WHERE trigger_id = %s", (trigger.id,))
    again = plan(connection, trigger, OffsetRange(partition, 0, 10))
    created = ingest(connection, attempt(connection, again), accepted_range(stream, 0, 10), no_proof, same_log)
    assert created == Created(5, 0, 5)
    assert positions(connection, trigger, stream) == list(range(1, 10, 2))


def test_a_range_of_markers_alone_leaves_no_note(
    connection: Connection, trigger: Trigger, partition: Partition
) -> None:
    batch_id = plan(connection, trigger, OffsetRange(partition, 0, 10))
    ingest(connection, attempt(connection, batch_id), [], lambda _: None, same_log)
    assert notes(connection, trigger) == 0
    ingested(connection, trigger, partition, 10, 20)
    assert notes(connection, trigger) == 1


def notes(connection: Connection, trigger: Trigger) -> int:
    row = connection.execute(
        "SELECT count(*) FROM workorders.whole_ranges JOIN workorders.source_streams ON source_streams.id = stream_id "
        "WHERE trigger_id = %s",
        (trigger.id,),
    ).fetchone()
    return int(row[0]) if row else 0


def test_a_range_without_gaps_leaves_no_note_and_grows_together_with_the_next(
    connection: Connection, trigger: Trigger, partition: Partition
) -> None:
    stream = stream_name(partition)
    for start in (0, 10):
        batch_id = plan(connection, trigger, OffsetRange(partition, start, start + 10))
        items = accepted_range(stream, start, start + 10)
        ingest(connection, attempt(connection, batch_id), items, no_proof, same_log)
    finish_all(connection, trigger.workflow)
    sweep(connection)
    assert deleted(connection, trigger) == [(0, 20, 20)]
    ingested(connection, trigger, partition, 20, 40)
    sweep(connection)
    assert deleted(connection, trigger) == [(0, 20, 20), (20, 40, 10)]
    assert notes(connection, trigger) == 0
