"""Postgres restored to an older state: the ledger wins, messages are read again, and rows that survived stay single."""

import pytest

from local_stack.stack import LocalStack
from support.ingesting import attempt, no_proof, partition_of, plan, row, same_log
from support.work_orders import accepted_range, positions, remove
from workorders.core.creation.work_orders import Created
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.ingest.transaction import ingest
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange

pytestmark = pytest.mark.integration


@pytest.fixture
def stream(stack: LocalStack, connection: Connection, trigger: Trigger) -> str:
    """The stream of a partition of which offsets 0 to 20 are ingested, in two batches."""
    partition = partition_of(trigger.name)
    for start in (0, 10):
        assert ingest_range(stack, connection, trigger, OffsetRange(partition, start, start + 10)).created == 10
    return stream_name(partition)


def ingest_range(stack: LocalStack, connection: Connection, trigger: Trigger, range_: OffsetRange) -> Created:
    """Plan and ingest a range of messages that are all inputs."""
    made = attempt(connection, plan(connection, trigger, range_))
    items = accepted_range(stream_name(range_.partition), range_.start, range_.end)
    with connect(stack.database_url) as own:
        return ingest(own, made, items, no_proof, same_log)


def restore_the_ledger(connection: Connection, trigger: Trigger) -> None:
    """Bring ledger and batches back to the moment before the second batch was planned."""
    connection.execute(
        "DELETE FROM workorders.kafka_ranges WHERE trigger_id = %s AND start_offset >= 10", (trigger.id,)
    )
    connection.execute("UPDATE workorders.kafka_ledger SET next_offset = 10 WHERE trigger_id = %s", (trigger.id,))
    connection.commit()


def test_what_came_after_the_backup_is_read_again(
    stack: LocalStack, connection: Connection, trigger: Trigger, stream: str
) -> None:
    restore_the_ledger(connection, trigger)
    remove(connection, trigger, range(10, 20))
    connection.commit()
    assert ingest_range(stack, connection, trigger, OffsetRange(partition_of(trigger.name), 10, 20)) == Created(
        10, 0, 0
    )
    assert positions(connection, trigger, stream) == list(range(20))
    assert row(connection, trigger).next_offset == 20


def test_work_orders_that_survived_a_restored_ledger_are_not_doubled_and_stall_nothing(
    stack: LocalStack, connection: Connection, trigger: Trigger, stream: str
) -> None:
    restore_the_ledger(connection, trigger)
    remove(connection, trigger, range(15, 20))
    connection.commit()
    again = ingest_range(stack, connection, trigger, OffsetRange(partition_of(trigger.name), 10, 20))
    assert (again.created, again.existing) == (5, 5)
    assert positions(connection, trigger, stream) == list(range(20))
    assert row(connection, trigger).next_offset == 20
