"""What retention deleted does not come back by a replay, and comes back if an operator sets the ledger back."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from local_stack.stack import LocalStack
from support.databases import own_database
from support.ingesting import attempt, attempts, no_proof, partition_of, plan, same_log
from support.runs import finish_all, keeping
from support.work_orders import accepted, accepted_range, age, positions, remove
from workorders.core import triggers
from workorders.core.creation.work_orders import Created
from workorders.core.exceptions import WorkOrdersError
from workorders.core.items import Item
from workorders.core.maintenance import retention
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.exceptions import BatchExpiredError, UnknownBatchError
from workorders.kafka.ingest.record_mapping import FILTERED
from workorders.kafka.ingest.transaction import ingest
from workorders.kafka.ledger import batches
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def database_url(stack: LocalStack) -> str:
    """A separate database, because retention deletes what is old of all triggers, here in steps of seven."""
    return own_database(stack, "replays")


@pytest.fixture
def trigger(connection: Connection, name: str) -> Trigger:
    trigger = triggers.register(connection, name=name, type_="kafka", workflow=name, definition={})
    keeping(connection, name, delete_after="10d", delete_errors_after="100d")
    return trigger


@pytest.fixture
def range_(name: str) -> OffsetRange:
    return OffsetRange(partition_of(name), 0, 10)


@pytest.fixture
def batch_id(connection: Connection, trigger: Trigger, range_: OffsetRange) -> int:
    """A batch of ten messages, whose work orders ended well but for the last two."""
    batch_id = plan(connection, trigger, range_)
    ingested(connection, batch_id, range_)
    finish_all(connection, trigger.workflow)
    connection.execute(
        "UPDATE workorders.work_orders SET state = 'failed' WHERE trigger_id = %s AND position >= 8", (trigger.id,)
    )
    connection.commit()
    return batch_id


def ingested(connection: Connection, batch_id: int, range_: OffsetRange) -> Created:
    items = accepted_range(stream_name(range_.partition), range_.start, range_.end)
    return ingest(connection, attempt(connection, batch_id), items, no_proof, same_log)


def passed(connection: Connection, trigger: Trigger, days: int, *, finished: bool = False) -> None:
    """Let the batches and work orders of a trigger be from some days ago, and retention have passed since.

    It keeps a batch that has just ended, whose Dag run may be at work, unless it is `finished`.
    """
    ago = timedelta(days=days)
    age(connection, trigger, days)
    connection.execute(
        "UPDATE workorders.kafka_batches SET planned_at = now() - %s WHERE trigger_id = %s", (ago, trigger.id)
    )
    if finished:
        connection.execute(
            "UPDATE workorders.kafka_ranges SET finished_at = now() - %s WHERE trigger_id = %s", (ago, trigger.id)
        )
    connection.commit()
    retention.delete_expired(connection, step=7, pause=lambda _: None)


def set_back(connection: Connection, trigger: Trigger) -> None:
    connection.execute("UPDATE workorders.kafka_ledger SET next_offset = 0 WHERE trigger_id = %s", (trigger.id,))
    connection.commit()


def stored(connection: Connection, trigger: Trigger, range_: OffsetRange) -> list[int]:
    found = positions(connection, trigger, stream_name(range_.partition))
    connection.commit()
    return sorted(position for position in found if position is not None)


def test_a_batch_is_deleted_before_the_first_of_its_work_orders(
    connection: Connection, trigger: Trigger, range_: OffsetRange, batch_id: int
) -> None:
    seen: list[tuple[bool, int]] = []

    def look(_: float) -> None:
        is_there = batch_id in {batch.id for batch in batches.summaries(connection, trigger.name)}
        seen.append((is_there, len(stored(connection, trigger, range_))))

    now = datetime.now(UTC) + timedelta(days=11)
    retention.delete_expired(connection, now=now, step=7, pause=look)
    assert (False, 10) in seen
    assert {is_there for is_there, count in seen if count < 10} == {False}
    assert stored(connection, trigger, range_) == [8, 9]
    with pytest.raises(UnknownBatchError, match="Retention may have deleted it"):
        batches.load(connection, batch_id)


def test_a_replay_restores_what_was_lost_while_the_batch_is_younger_than_the_retention(
    connection: Connection, trigger: Trigger, range_: OffsetRange, batch_id: int
) -> None:
    passed(connection, trigger, 9, finished=True)
    remove(connection, trigger, [3, 9])
    connection.commit()
    assert ingested(connection, batch_id, range_) == Created(2, 0, 8)
    assert stored(connection, trigger, range_) == list(range(10))


@pytest.mark.parametrize("read_from", [0, 10], ids=["read", "gone from Kafka"])
def test_a_replay_after_a_partial_retention_is_refused_and_changes_nothing(
    connection: Connection, trigger: Trigger, range_: OffsetRange, batch_id: int, read_from: int
) -> None:
    passed(connection, trigger, 11)
    assert stored(connection, trigger, range_) == [8, 9]
    replay = attempt(connection, batch_id, read_from=read_from)
    items = accepted_range(stream_name(range_.partition), read_from, 10)
    with pytest.raises(BatchExpiredError, match=f"older than the 10 days for which workflow {trigger.workflow} keeps"):
        ingest(connection, replay, items, no_proof, same_log)
    assert stored(connection, trigger, range_) == [8, 9]


@pytest.mark.parametrize(("finished", "error"), [(False, BatchExpiredError), (True, UnknownBatchError)])
def test_a_replay_that_retention_overtakes_is_refused_and_changes_nothing(
    connection: Connection,
    database_url: str,
    trigger: Trigger,
    range_: OffsetRange,
    batch_id: int,
    *,
    finished: bool,
    error: type[WorkOrdersError],
) -> None:
    def overtaken() -> Iterator[Item]:
        yield from accepted_range(stream_name(range_.partition), 0, 10)
        with connect(database_url, application_name="test") as other:
            passed(other, trigger, 11, finished=finished)

    replay = attempt(connection, batch_id)
    with pytest.raises(error):
        ingest(connection, replay, overtaken(), no_proof, same_log)
    assert stored(connection, trigger, range_) == [8, 9]


def test_a_first_ingest_has_no_limit_of_age_and_its_replay_has(
    connection: Connection, trigger: Trigger, range_: OffsetRange
) -> None:
    batch_id = plan(connection, trigger, range_, cut_at=(5,))
    first, second = attempts(connection, batch_id)
    stream = stream_name(range_.partition)
    ingest(connection, first, accepted_range(stream, 0, 5), no_proof, same_log)
    finish_all(connection, trigger.workflow)
    passed(connection, trigger, 11)
    assert ingest(connection, second, accepted_range(stream, 5, 10), no_proof, same_log) == Created(5, 0, 0)
    with pytest.raises(BatchExpiredError):
        ingested(connection, batch_id, range_)
    assert stored(connection, trigger, range_) == [5, 6, 7, 8, 9]


@pytest.mark.usefixtures("batch_id")
def test_a_batch_whose_messages_had_older_work_orders_is_not_replayed(
    connection: Connection, trigger: Trigger, range_: OffsetRange
) -> None:
    passed(connection, trigger, 9)
    set_back(connection, trigger)
    again = plan(connection, trigger, range_)
    assert ingested(connection, again, range_) == Created(0, 0, 10)
    age(connection, trigger, 11)
    connection.commit()
    retention.delete_expired(connection, pause=lambda _: None)
    with pytest.raises(BatchExpiredError, match="some of its messages had work orders that may exceed the 10 days"):
        ingested(connection, again, range_)
    assert stored(connection, trigger, range_) == [8, 9]
    keeping(connection, trigger.workflow)
    assert ingested(connection, again, range_) == Created(8, 0, 2)


def test_a_ledger_that_is_set_back_creates_again_what_was_deleted_and_what_another_filter_left_out(
    connection: Connection, trigger: Trigger, range_: OffsetRange
) -> None:
    stream = stream_name(range_.partition)
    batch_id = plan(connection, trigger, range_)
    items = [Item(stream, place, b"", None, FILTERED) if place % 2 else accepted(stream, place) for place in range(10)]
    created = ingest(connection, attempt(connection, batch_id), items, no_proof, same_log)
    assert created == Created(5, 0, 0, filtered=5)
    finish_all(connection, trigger.workflow)
    passed(connection, trigger, 11, finished=True)
    assert stored(connection, trigger, range_) == []
    set_back(connection, trigger)
    assert ingested(connection, plan(connection, trigger, range_), range_) == Created(10, 0, 0)
