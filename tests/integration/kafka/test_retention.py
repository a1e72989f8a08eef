"""What retention deleted does not come back, whichever way a range is read again."""

from datetime import UTC, datetime, timedelta

import pytest

from support.ingesting import attempt, no_proof, partition_of, plan, same_log
from support.runs import finish_all, keeping
from support.work_orders import accepted_range, positions, remove
from workorders.core import retention, triggers
from workorders.core.database import Connection
from workorders.core.triggers import Trigger
from workorders.core.work_orders import Created
from workorders.kafka.exceptions import DataLostError
from workorders.kafka.ingest import ingest
from workorders.kafka.ledger import stream_name
from workorders.kafka.partitions import OffsetRange

pytestmark = pytest.mark.integration


@pytest.fixture
def trigger(connection: Connection, name: str) -> Trigger:
    trigger = triggers.register(connection, name=name, type_="kafka", workflow=name, definition={})
    connection.commit()
    return trigger


@pytest.fixture
def planned(connection: Connection, name: str) -> OffsetRange:
    keeping(connection, name, days=10)
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
    retention.run(connection, now=datetime.now(UTC) + timedelta(days=11), pause=lambda _: None)
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
