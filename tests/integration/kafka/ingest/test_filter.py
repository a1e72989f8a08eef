"""A filter on a real topic: what it leaves out is counted, moves the ledger, and creates nothing, also in a replay."""

import pytest

from local_stack.stack import LocalStack
from support.in_process_trigger import InProcessTrigger, kept
from support.ingesting import row
from support.topics import Topics
from support.work_orders import remove
from workorders.core.creation.work_orders import Created
from workorders.core.postgres.connection import Connection
from workorders.kafka.ledger import batches
from workorders.kafka.partitions import OffsetRange

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("whole_work_orders")]

OURS, OTHERS = [("type", b"order")], [("type", b"visit")]


@pytest.fixture
def filtering(stack: LocalStack, topics: Topics, name: str) -> InProcessTrigger:
    topics.create(name)
    topics.produce(name, [b"{}"] * 3, headers=OTHERS)
    topics.produce(name, [b"{}", b"rubbish", b"{}"], headers=OURS)
    topics.produce(name, [b"rubbish", b"{}"], headers=OTHERS)
    return InProcessTrigger(stack, name, filter={"header:type": "order"})


def planned(trigger: InProcessTrigger) -> tuple[int, OffsetRange]:
    plan = trigger.plan()
    assert plan.batch_id is not None
    return plan.batch_id, plan.ranges[0]


@pytest.mark.parametrize("fields", [{}, {"virtual_partitions": 3}, {"max_rejected_share": 0.9}], ids=str)
def test_messages_that_the_filter_leaves_out_are_counted_and_move_the_ledger(
    connection: Connection, filtering: InProcessTrigger, fields: dict[str, object]
) -> None:
    filtering.definition = filtering.definition.model_copy(update=fields)
    batch_id, range_ = planned(filtering)
    outcomes = filtering.ingest_messages(batch_id)
    assert [outcome.error for outcome in outcomes if outcome.error] == []
    assert sum((outcome.created for outcome in outcomes), Created()) == Created(2, 1, filtered=5)
    batch = batches.load(connection, batch_id)
    assert [(range_.created, range_.rejected, range_.filtered, range_.messages) for range_ in batch.ranges] == [
        (2, 1, 5, 3)
    ]
    assert row(connection, batch.trigger).next_offset == range_.end == 8
    assert list(kept(connection, batch.trigger.name).values()) == [[3, 4, 5]]


def test_a_batch_keeps_its_filter_for_a_late_try_and_for_a_replay(
    connection: Connection, filtering: InProcessTrigger, topics: Topics, name: str
) -> None:
    batch_id, _ = planned(filtering)
    filtering.definition = filtering.definition.model_copy(update={"filter": None})
    topics.produce(name, [b"{}"] * 2, headers=OTHERS)
    filtering.plan()  # stores the definition without the filter, and plans nothing of a partition that has a batch
    assert [outcome.created for outcome in filtering.ingest_messages(batch_id)] == [Created(2, 1, filtered=5)]
    remove(connection, batches.load(connection, batch_id).trigger, [5])
    connection.commit()
    for created in (1, 0):
        (replay,) = filtering.ingest_messages(batch_id)
        assert (replay.error, replay.created) == (None, Created(created, 0, 3 - created, filtered=5))
    later, range_ = planned(filtering)
    filtering.ingest_messages(later)
    assert (range_.start, range_.end) == (8, 10)
    assert list(kept(connection, name).values()) == [[3, 4, 5, 8, 9]]


def test_a_range_of_which_nothing_is_taken_is_finished(
    connection: Connection, stack: LocalStack, topics: Topics, name: str
) -> None:
    topics.create(name)
    topics.produce(name, [b"{}"] * 4, headers=OTHERS)
    trigger = InProcessTrigger(stack, name, filter={"header:type": "order"})
    batch_id, _ = planned(trigger)
    for expected in (Created(filtered=4), Created(filtered=4)):  # the ingest and a replay
        (outcome,) = trigger.ingest_messages(batch_id)
        assert (outcome.error, outcome.created) == (None, expected)
    assert kept(connection, name) == {}


def test_a_message_that_was_not_read_is_not_taken_for_one_that_was_left_out(
    stack: LocalStack, filtering: InProcessTrigger
) -> None:
    batch_id, _ = planned(filtering)
    (attempt,) = filtering.prepare(batch_id).attempts
    outcome = filtering.ingest_first(attempt, 7)
    assert "the reader ended too early, because there may be a message at offset 7" in (outcome.error or "")
