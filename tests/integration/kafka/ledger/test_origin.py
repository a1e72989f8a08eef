"""A work order leads to the batch that created it."""

import pytest

from support.ingesting import finish, partition_of, plan
from support.work_orders import accepted_range, remove
from workorders.core.creation.work_orders import create_for
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.history.work_orders import WorkOrder
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.ledger import batches
from workorders.kafka.ledger.origin import find_batch
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange, Partition

pytestmark = pytest.mark.integration


@pytest.fixture
def partition(name: str) -> Partition:
    return partition_of(name)


def ingested(connection: Connection, trigger: Trigger, range_: OffsetRange) -> int:
    """Record a batch of one range with its missing work orders, and return its number."""
    batch_id = plan(connection, trigger, range_)
    ingest_range(connection, trigger, batch_id, range_)
    return batch_id


def ingest_range(connection: Connection, trigger: Trigger, batch_id: int, range_: OffsetRange) -> None:
    created = create_for(connection, trigger, accepted_range(stream_name(range_.partition), range_.start, range_.end))
    finish(connection, batch_id, range_, created)
    connection.commit()


def batch_of(connection: Connection, trigger: Trigger, position: int) -> int | None:
    wanted = Filter(trigger=trigger.name, from_position=position, to_position=position + 1)
    (found,) = work_orders.list_work_orders(connection, wanted)
    return find_batch(connection, work_orders.get_work_order(connection, found.id))


def test_each_work_order_leads_to_the_batch_of_its_offset(
    connection: Connection, trigger: Trigger, partition: Partition
) -> None:
    first = ingested(connection, trigger, OffsetRange(partition, 0, 5))
    second = ingested(connection, trigger, OffsetRange(partition, 5, 9))
    assert [batch_of(connection, trigger, position) for position in (0, 4, 5, 8)] == [first, first, second, second]


def test_a_batch_that_reads_an_offset_again_created_only_what_was_missing(
    connection: Connection, trigger: Trigger, partition: Partition
) -> None:
    first = ingested(connection, trigger, OffsetRange(partition, 0, 5))
    remove(connection, trigger, [3])
    connection.commit()
    again = ingested(connection, trigger, OffsetRange(partition, 2, 5))
    assert [batch_of(connection, trigger, position) for position in (2, 3, 4)] == [first, again, first]


def test_work_orders_of_ranges_that_were_joined_lead_to_their_batch(
    connection: Connection, trigger: Trigger, partition: Partition
) -> None:
    batch_id = ingested(connection, trigger, OffsetRange(partition, 0, 5))
    batches.add_ranges(connection, batch_id, trigger, [OffsetRange(partition, 5, 9)])
    ingest_range(connection, trigger, batch_id, OffsetRange(partition, 5, 9))
    batches.join_ranges(connection, batch_id)
    assert {batch_of(connection, trigger, position) for position in (0, 8)} == {batch_id}


def test_the_same_offset_of_another_log_is_another_message(
    connection: Connection, trigger: Trigger, partition: Partition
) -> None:
    ingested(connection, trigger, OffsetRange(partition, 0, 5))
    other = Partition(partition.topic, partition.partition, "another-id")
    create_for(connection, trigger, accepted_range(stream_name(other), 2, 3))
    create_for(connection, trigger, accepted_range(stream_name(partition, 7), 2, 3))
    create_for(connection, trigger, accepted_range("no partition", 2, 3))
    found: list[WorkOrder] = [
        work_orders.get_work_order(connection, row.id)
        for row in work_orders.list_work_orders(
            connection, Filter(trigger=trigger.name, from_position=2, to_position=3)
        )
    ]
    assert len(found) == 4
    assert [find_batch(connection, one) is not None for one in found] == [False, False, False, True]
