from datetime import datetime
from typing import Any

import psycopg
import pytest

from support.ingesting import finish, partition_of, plan, row
from workorders.core.creation.work_orders import Created
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.exceptions import FencedError
from workorders.kafka.ledger import batches, positions
from workorders.kafka.ledger.positions import LockedPosition
from workorders.kafka.ledger.virtual_partitions import finish_range
from workorders.kafka.partitions import OffsetRange, Partition

pytestmark = pytest.mark.integration


@pytest.fixture
def partition(name: str) -> Partition:
    return partition_of(name)


@pytest.fixture
def batch_id(connection: Connection, trigger: Trigger, partition: Partition) -> int:
    return plan(connection, trigger, OffsetRange(partition, 100, 110))


def locked(connection: Connection, trigger: Trigger, partition: Partition) -> LockedPosition:
    return positions.lock(connection, trigger, partition)


def database_time(connection: Connection) -> datetime:
    found: Any = connection.execute("SELECT now()").fetchone()
    return found[0]  # type: ignore[no-any-return]


def test_moving_is_compare_and_set(
    connection: Connection, trigger: Trigger, partition: Partition, batch_id: int
) -> None:
    epoch = positions.take_epoch(connection, batch_id)
    for range_, of_epoch in (
        (OffsetRange(partition, 99, 110), epoch),
        (OffsetRange(partition, 101, 110), epoch),
        (OffsetRange(partition, 100, 110), epoch - 1),
        (OffsetRange(partition, 100, 110), epoch + 1),
    ):
        with pytest.raises(FencedError, match="nothing was committed here"):
            finish_range(connection, batch_id, range_, of_epoch, Created())
    connection.execute("UPDATE workorders.kafka_ledger SET next_offset = 101 WHERE trigger_id = %s", (trigger.id,))
    with pytest.raises(FencedError, match="nothing was committed here"):
        finish_range(connection, batch_id, OffsetRange(partition, 100, 110), epoch, Created())
    connection.execute("UPDATE workorders.kafka_ledger SET next_offset = 100 WHERE trigger_id = %s", (trigger.id,))
    assert row(connection, trigger).next_offset == 100
    finish_range(connection, batch_id, OffsetRange(partition, 100, 110), epoch, Created())
    entry = row(connection, trigger)
    assert (entry.next_offset, entry.stored_end) == (110, 110)


def test_what_is_stored_keeps_its_end_when_a_ledger_that_went_back_moves(
    connection: Connection, trigger: Trigger, partition: Partition, batch_id: int
) -> None:
    connection.execute("UPDATE workorders.kafka_ledger SET stored_end = 150 WHERE trigger_id = %s", (trigger.id,))
    finish(connection, batch_id, OffsetRange(partition, 100, 110))
    assert row(connection, trigger).stored_end == 150


def test_the_size_of_messages_is_kept_when_a_range_had_none(
    connection: Connection, trigger: Trigger, partition: Partition, batch_id: int
) -> None:
    first, second = OffsetRange(partition, 100, 110), OffsetRange(partition, 110, 120)
    finish_range(
        connection, batch_id, first, positions.take_epoch(connection, batch_id), Created(), mean_message_bytes=321.5
    )
    batches.add_ranges(connection, batch_id, trigger, [second])
    finish(connection, batch_id, second)
    assert positions.positions(connection, trigger.name)[partition].mean_message_bytes == 321.5


def test_the_epoch_of_an_attempt_is_greater_than_all_that_its_batch_and_its_ledger_rows_had(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    """Whatever brought them there: batches before, a decision, or a copy of the database."""
    ranges = [OffsetRange(partition_of(name, number), 0, 5) for number in (0, 1)]
    batch_id = plan(connection, trigger, *ranges)
    connection.execute(
        "UPDATE workorders.kafka_ledger SET epoch = 5000 + partition WHERE trigger_id = %s", (trigger.id,)
    )
    assert positions.take_epoch(connection, batch_id) == 5002
    assert [locked(connection, trigger, range_.partition).epoch for range_ in ranges] == [5002, 5002]
    connection.execute("UPDATE workorders.kafka_batches SET epoch = 6000 WHERE id = %s", (batch_id,))
    assert positions.take_epoch(connection, batch_id) == 6001


def test_an_attempt_takes_the_epoch_of_unfinished_partitions_only(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    ranges = [OffsetRange(partition_of(name, number), 0, 5) for number in (0, 1)]
    batch_id = plan(connection, trigger, *ranges)
    first = positions.take_epoch(connection, batch_id)
    finish(connection, batch_id, ranges[0])
    second = positions.take_epoch(connection, batch_id)
    assert [locked(connection, trigger, range_.partition).epoch for range_ in ranges] == [first, second]


def test_a_stall_has_its_reason_its_start_and_the_next_try(
    connection: Connection, trigger: Trigger, partition: Partition, batch_id: int
) -> None:
    epoch = positions.take_epoch(connection, batch_id)
    positions.stall(connection, trigger, OffsetRange(partition, 100, 110), epoch=epoch, error="orders 0: no.")
    entry = row(connection, trigger)
    assert (entry.status, entry.last_error, entry.attempts) == ("stalled", "orders 0: no.", 1)
    assert entry.next_attempt_at is not None
    assert (entry.next_attempt_at - database_time(connection)).total_seconds() == 1
    assert entry.batch_id == batch_id


def test_a_stall_that_continues_keeps_its_beginning(
    connection: Connection, trigger: Trigger, partition: Partition, batch_id: int
) -> None:
    """The alert counts from the beginning of a stall."""
    for error in ("first", "second"):
        epoch = positions.take_epoch(connection, batch_id)
        positions.stall(connection, trigger, OffsetRange(partition, 100, 110), epoch=epoch, error=error)
        connection.execute(
            "UPDATE workorders.kafka_ledger SET status_since = '2026-01-01 00:00Z' "
            "WHERE trigger_id = %s AND %s = 'first'",
            (trigger.id, error),
        )
    entry = row(connection, trigger)
    assert (entry.last_error, entry.status_since.year, entry.status_since.month) == ("second", 2026, 1)


def test_an_older_attempt_records_no_stall(
    connection: Connection, trigger: Trigger, partition: Partition, batch_id: int
) -> None:
    old = positions.take_epoch(connection, batch_id)
    positions.take_epoch(connection, batch_id)
    positions.stall(connection, trigger, OffsetRange(partition, 100, 110), epoch=old, error="old news")
    assert (row(connection, trigger).status, row(connection, trigger).last_error) == ("active", None)


def test_moving_ends_a_stall(connection: Connection, trigger: Trigger, partition: Partition, batch_id: int) -> None:
    epoch = positions.take_epoch(connection, batch_id)
    positions.stall(connection, trigger, OffsetRange(partition, 100, 110), epoch=epoch, error="no")
    finish(connection, batch_id, OffsetRange(partition, 100, 110))
    entry = row(connection, trigger)
    assert (entry.status, entry.attempts, entry.next_attempt_at, entry.last_error) == ("active", 0, None, None)


def test_a_partition_without_a_row_cannot_be_locked(
    connection: Connection, trigger: Trigger, partition: Partition
) -> None:
    with pytest.raises(FencedError, match=f"^{trigger.name}: {partition.topic} 0 is no longer in the ledger; nothing"):
        locked(connection, trigger, partition)


def test_the_positions_of_a_batch_are_the_ledgers_and_not_the_ranges(
    connection: Connection, trigger: Trigger, partition: Partition, batch_id: int
) -> None:
    """What is committed to the group can neither overtake the ledger nor go back behind a later batch."""
    assert positions.positions_of_batch(connection, batch_id) == {partition: 100}
    for range_ in (OffsetRange(partition, 100, 110), OffsetRange(partition, 110, 200)):
        if range_.start == 110:
            batches.add_ranges(connection, batch_id, trigger, [range_])
        finish(connection, batch_id, range_)
    assert positions.positions_of_batch(connection, batch_id) == {partition: 200}


def test_the_ledger_never_goes_behind_its_start(
    connection: Connection, trigger: Trigger, partition: Partition, batch_id: int
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("UPDATE workorders.kafka_ledger SET next_offset = 99 WHERE trigger_id = %s", (trigger.id,))
    connection.rollback()


def test_status_shows_one_trigger_or_all_sorted(connection: Connection, trigger: Trigger, name: str) -> None:
    for number in (10, 9):
        positions.insert(connection, trigger, partition_of(name, number), number)
    assert [found.partition for found in positions.status(connection, name)] == [9, 10]
    assert {found.trigger for found in positions.status(connection)} >= {name}
