from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from support.ingesting import finish, partition_of, plan
from support.runs import keeping
from workorders.core import triggers
from workorders.core.creation.work_orders import Created
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.exceptions import UnknownBatchError
from workorders.kafka.ledger import batches, positions
from workorders.kafka.partitions import OffsetRange

pytestmark = pytest.mark.integration


@pytest.fixture
def ranges(name: str) -> list[OffsetRange]:
    return [OffsetRange(partition_of(name, number), 100 * number, 100 * number + 50) for number in (0, 1)]


def test_a_recorded_batch_is_loaded_as_it_was_planned(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange], name: str
) -> None:
    batch = batches.load(connection, plan(connection, trigger, ranges[1], ranges[0]))
    assert batch.trigger == trigger
    assert [range_.range for range_ in batch.ranges] == ranges
    assert [(range_.finished, range_.created, range_.rejected) for range_ in batch.ranges] == [(False, None, None)] * 2
    assert batch.label == f"{name} 0 [0, 50), {name} 1 [100, 150)"


def test_a_batch_that_is_not_there_is_unknown(connection: Connection) -> None:
    with pytest.raises(UnknownBatchError, match=r"^There is no batch 999999999 in this database; nothing was done"):
        batches.load(connection, 999_999_999)


def test_a_partition_is_in_one_unfinished_batch_at_most(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange]
) -> None:
    """The index holds it, whatever a planner does."""
    plan(connection, trigger, *ranges)
    with pytest.raises(psycopg.errors.UniqueViolation):
        batches.create(connection, trigger, [OffsetRange(ranges[1].partition, 150, 160)])
    connection.rollback()


def test_a_finished_partition_is_free_although_its_batch_is_not(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange]
) -> None:
    batch_id = plan(connection, trigger, *ranges)
    finish(connection, batch_id, ranges[1])
    found = positions.positions(connection, trigger.name)
    assert [found[range_.partition].busy for range_ in ranges] == [True, False]
    assert plan(connection, trigger, OffsetRange(ranges[1].partition, 150, 160)) > batch_id


def test_a_batch_is_to_be_worked_at_until_its_last_range_is_finished_oldest_first(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange], name: str
) -> None:
    first = plan(connection, trigger, *ranges)
    second = plan(connection, trigger, OffsetRange(partition_of(name, 2), 0, 5))
    assert batches.list_unfinished(connection, name) == [first, second]
    assert batches.list_unfinished(connection, f"{name}-other") == []
    finish(connection, first, ranges[0])
    assert batches.list_unfinished(connection, name) == [first, second]
    finish(connection, first, ranges[1])
    assert batches.list_unfinished(connection, name) == [second]


def test_a_batch_that_failed_is_left_alone_before_its_next_try_is_due(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange], name: str
) -> None:
    batch_id = plan(connection, trigger, *ranges)
    epoch = positions.take_epoch(connection, batch_id)
    # now() does not change within this transaction.
    positions.stall(connection, trigger, ranges[1], epoch=epoch, error="no")
    assert batches.list_unfinished(connection, name) == []
    connection.execute(
        "UPDATE workorders.kafka_ledger SET next_attempt_at = now() WHERE trigger_id = %s", (trigger.id,)
    )
    assert batches.list_unfinished(connection, name) == [batch_id]


def test_the_time_since_the_last_plan_is_the_databases(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange]
) -> None:
    # Not the number of batches that grow: it counts those of all triggers, also those of other tests.
    assert batches.last_plan(connection, trigger.name).seconds_ago is None
    for range_, age in zip(ranges, (3600, 60), strict=True):
        batch_id = plan(connection, trigger, range_)
        connection.execute(
            "UPDATE workorders.kafka_ranges SET planned_at = now() - %s * interval '1 s' WHERE batch_id = %s",
            (age, batch_id),
        )
    assert batches.last_plan(connection, trigger.name).seconds_ago == pytest.approx(60, abs=30)


def is_open(connection: Connection, trigger: Trigger) -> bool:
    connection.commit()
    return batches.last_plan(connection, trigger.name).is_open


def test_a_batch_is_open_from_its_plan_until_its_attempt_ends(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange]
) -> None:
    first = batches.create(connection, trigger, ranges[:1], lease_seconds=60)
    assert is_open(connection, trigger)
    epoch = positions.take_epoch(connection, first)
    assert is_open(connection, trigger)
    batches.end_growth(connection, first, epoch)
    assert not is_open(connection, trigger)
    assert batches.renew_lease(connection, first, epoch), "after its ranges were ingested"
    assert is_open(connection, trigger)


def test_a_lease_is_renewed_by_the_newest_attempt_at_the_oldest_open_batch_alone(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange]
) -> None:
    older = batches.create(connection, trigger, ranges[:1], lease_seconds=60)
    younger = batches.create(connection, trigger, ranges[1:], lease_seconds=60)
    epochs = {batch_id: positions.take_epoch(connection, batch_id) for batch_id in (older, younger)}
    assert not batches.renew_lease(connection, younger, epochs[younger])
    assert batches.renew_lease(connection, older, epochs[older])
    newer = positions.take_epoch(connection, older)
    assert not batches.renew_lease(connection, older, epochs[older])
    batches.end_growth(connection, older, epochs[older])
    assert not batches.renew_lease(connection, younger, epochs[younger]), "a fenced attempt ends no growth"
    batches.end_growth(connection, older, newer)
    assert batches.renew_lease(connection, younger, epochs[younger])


def test_a_lease_that_was_closed_stays_closed_until_the_next_attempt(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange]
) -> None:
    batch_id = batches.create(connection, trigger, ranges[:1], lease_seconds=60)
    epoch = positions.take_epoch(connection, batch_id)
    batches.close_lease(connection, batch_id)
    assert not is_open(connection, trigger)
    assert not batches.renew_lease(connection, batch_id, epoch)
    assert batches.renew_lease(connection, batch_id, positions.take_epoch(connection, batch_id))


def test_finished_ranges_that_follow_one_another_become_one_and_gaps_and_other_logs_remain(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange]
) -> None:
    partition, other = (range_.partition for range_ in ranges)
    added = [OffsetRange(partition, start, end) for start, end in ((50, 60), (60, 61), (70, 80))]
    batch_id = plan(connection, trigger, *ranges)
    counted = (Created(6, 4, 0), Created(1, 0, 0), *[Created(1, 0, 9)] * 3)
    for range_, counts in zip([*ranges, *added], counted, strict=True):
        if range_ in added:
            batches.add_ranges(connection, batch_id, trigger, [range_])
        finish(connection, batch_id, range_, counts)
    batches.add_ranges(connection, batch_id, trigger, [OffsetRange(partition, 80, 90)])
    batches.join_ranges(connection, batch_id)
    batches.join_ranges(connection, batch_id)
    found = [
        (str(range_.range), range_.created, range_.rejected, range_.existing)
        for range_ in batches.load(connection, batch_id).ranges
    ]
    topic = partition.topic
    assert found == [
        (f"{topic} 0 [{ranges[0].start}, 61)", 8, 4, 18),
        (f"{topic} 0 [70, 80)", 1, 0, 9),
        (f"{topic} 0 [80, 90)", None, None, 0),
        (f"{topic} {other.partition} [{ranges[1].start}, {ranges[1].end})", 1, 0, 0),
    ]


@pytest.mark.parametrize(
    "kept", [{"delete_after": "7d", "delete_errors_after": "30d"}, {"delete_errors_after": "7d"}], ids=str
)
def test_a_batch_is_deleted_once_its_workflow_may_delete_a_work_order_of_its_time(
    connection: Connection, name: str, ranges: list[OffsetRange], kept: dict[str, str]
) -> None:
    keeping(connection, name, **kept)
    trigger = triggers.register(connection, name=name, type_="kafka", workflow=name, definition={})
    old, unfinished = (plan(connection, trigger, range_) for range_ in ranges)
    finish(connection, old, ranges[0])
    connection.commit()

    def left(days: float) -> set[int]:
        assert not batches.delete_expired(connection, datetime.now(UTC) + timedelta(days=days))
        connection.commit()
        return {batch.id for batch in batches.summaries(connection, name)}

    assert left(6.9) == {old, unfinished}
    assert left(7.1) == {unfinished}
    with pytest.raises(UnknownBatchError, match="Retention may have deleted it"):
        batches.load(connection, old)


def test_summaries_are_newest_first_and_finished_only_when_every_range_is(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange], name: str
) -> None:
    old = plan(connection, trigger, *ranges)
    finish(connection, old, ranges[0], Created(40, 2, 0))
    (summary,) = batches.summaries(connection, name)
    assert (summary.id, summary.partitions, summary.created, summary.rejected) == (old, 2, 40, 2)
    assert summary.finished_at is None
    finish(connection, old, ranges[1], Created(1, 1, 0))
    new = plan(connection, trigger, OffsetRange(ranges[0].partition, 50, 60))
    newest, oldest = batches.summaries(connection, name)
    assert (newest.id, newest.finished_at) == (new, None)
    assert (oldest.id, oldest.created, oldest.rejected) == (old, 41, 3)
    assert oldest.finished_at is not None
    assert [summary.id for summary in batches.summaries(connection, name, limit=1)] == [new]
    assert [summary.id for summary in batches.summaries(connection, name, before=new)] == [old]
