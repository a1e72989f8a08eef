"""A range of which too much is rejected: rolled back whole, and ingested once the limit is gone."""

import pytest

from local_stack.stack import LocalStack
from support.ingesting import attempt, everything, no_proof, partition_of, plan, same_log
from support.work_orders import accepted_range, rejected
from workorders.core.creation.work_orders import Created
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.exceptions import TooManyRejectedError, UnexpectedMessageError
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ingest.transaction import ingest
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange

pytestmark = pytest.mark.integration


@pytest.fixture
def range_(name: str) -> OffsetRange:
    return OffsetRange(partition_of(name), 100, 140)


@pytest.fixture
def batch_id(connection: Connection, trigger: Trigger, range_: OffsetRange) -> int:
    return plan(connection, trigger, range_)


def messages(range_: OffsetRange, bad: int) -> list[Item]:
    """Return a message for every offset, of which the last ones are no inputs."""
    stream, first_bad = stream_name(range_.partition), range_.end - bad
    rubbish = [rejected(stream, offset) for offset in range(first_bad, range_.end)]
    return [*accepted_range(stream, range_.start, first_bad), *rubbish]


def run(stack: LocalStack, made: Attempt, bad: int) -> Created:
    with connect(stack.database_url) as own:
        return ingest(own, made, messages(made.range, bad), no_proof, same_log)


@pytest.mark.parametrize("bad", [21, 40])
def test_a_range_with_too_much_rejected_leaves_nothing_behind(
    stack: LocalStack, connection: Connection, trigger: Trigger, batch_id: int, bad: int
) -> None:
    made = attempt(connection, batch_id, max_rejected_share=0.5)
    before = everything(connection, trigger)
    with pytest.raises(TooManyRejectedError, match="of them as not-json"):
        run(stack, made, bad)
    assert everything(connection, trigger) == before


def test_messages_out_of_order_are_reported_as_such_however_many_are_rejected(
    stack: LocalStack, connection: Connection, batch_id: int
) -> None:
    made = attempt(connection, batch_id, max_rejected_share=0.1)
    # The breaker trips at the tenth, which repeats an offset.
    items = [rejected(stream_name(made.range.partition), offset) for offset in (*range(100, 109), 107)]
    with connect(stack.database_url) as own, pytest.raises(UnexpectedMessageError, match="delivered offset 107"):
        ingest(own, made, items, no_proof, same_log)


def test_a_replay_is_not_held_up(stack: LocalStack, connection: Connection, batch_id: int) -> None:
    run(stack, attempt(connection, batch_id), 40)
    replay = attempt(connection, batch_id, max_rejected_share=0.5)
    assert replay.is_replay
    assert run(stack, replay, 40) == Created(0, 0, 40)
