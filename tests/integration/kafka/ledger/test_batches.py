import psycopg
import pytest

from local_stack.stack import LocalStack
from support.eventually import eventually
from support.ingesting import partition_of, plan
from workorders.core.creation.work_orders import Created
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.exceptions import FencedError, UnknownBatchError
from workorders.kafka.ledger import batches, positions
from workorders.kafka.ledger.attempt_lock import attempt_lock
from workorders.kafka.ledger.batches import UnfinishedBatch
from workorders.kafka.partitions import OffsetRange

pytestmark = pytest.mark.integration


@pytest.fixture
def ranges(name: str) -> list[OffsetRange]:
    return [OffsetRange(partition_of(name, number), 100 * number, 100 * number + 50) for number in (0, 1)]


def finish(connection: Connection, batch_id: int, range_: OffsetRange, created: Created | None = None) -> None:
    batches.finish(connection, batch_id, range_, created or Created(3, 1, 0))


def test_a_recorded_batch_is_loaded_as_it_was_planned(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange], name: str
) -> None:
    batch = batches.load(connection, plan(connection, trigger, ranges[1], ranges[0]))
    assert batch.trigger == trigger
    assert [part.range for part in batch.ranges] == ranges
    assert [(part.finished, part.created, part.rejected) for part in batch.ranges] == [(False, None, None)] * 2
    assert batch.handed_over_at is None
    assert batch.label == f"{name} 0 [0, 50), {name} 1 [100, 150)"


def test_a_batch_that_is_not_there_is_unknown(connection: Connection) -> None:
    with pytest.raises(UnknownBatchError, match=r"^There is no batch 999999999 in this database; see "):
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


@pytest.mark.parametrize(("start", "end"), [(5, 5), (6, 5), (-1, 5)])
def test_an_empty_or_impossible_range_is_not_recorded(
    connection: Connection, trigger: Trigger, name: str, start: int, end: int
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        batches.create(connection, trigger, [OffsetRange(partition_of(name), start, end)])
    connection.rollback()


def test_a_range_is_finished_once_with_its_counts(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange]
) -> None:
    batch_id = plan(connection, trigger, *ranges)
    finish(connection, batch_id, ranges[0], Created(40, 2, 0))
    done, open_ = batches.load(connection, batch_id).ranges
    assert (done.finished, done.created, done.rejected) == (True, 40, 2)
    assert not open_.finished
    with pytest.raises(FencedError, match="was finished by another attempt; nothing was committed here"):
        finish(connection, batch_id, ranges[0])


def test_a_batch_is_to_be_worked_at_until_its_last_range_is_finished_oldest_first(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange], name: str
) -> None:
    first = plan(connection, trigger, *ranges)
    second = plan(connection, trigger, OffsetRange(partition_of(name, 2), 0, 5))
    assert [batch.id for batch in batches.unfinished(connection, name)] == [first, second]
    assert batches.unfinished(connection, f"{name}-other") == []
    finish(connection, first, ranges[0])
    assert [batch.id for batch in batches.unfinished(connection, name)] == [first, second]
    finish(connection, first, ranges[1])
    assert [batch.id for batch in batches.unfinished(connection, name)] == [second]


def test_a_batch_that_was_dispatched_is_still_to_be_worked_at(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange], name: str
) -> None:
    batch_id = plan(connection, trigger, *ranges)
    assert batches.unfinished(connection, name) == [UnfinishedBatch(batch_id, handed_over=False)]
    batches.mark_handed_over(connection, [batch_id])
    assert batches.unfinished(connection, name) == [UnfinishedBatch(batch_id, handed_over=True)]


def test_a_batch_that_failed_is_left_alone_before_its_next_try_is_due(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange], name: str
) -> None:
    batch_id = plan(connection, trigger, *ranges)
    epoch = positions.take_epoch(connection, batch_id)
    # now() does not change within this transaction.
    positions.stall(connection, trigger, ranges[1].partition, epoch=epoch, error="no", delay_seconds=1)
    assert batches.unfinished(connection, name) == []
    positions.stall(connection, trigger, ranges[1].partition, epoch=epoch, error="no", delay_seconds=0)
    assert [batch.id for batch in batches.unfinished(connection, name)] == [batch_id]


def test_a_batch_without_a_run_is_left_to_the_task_that_took_it_while_that_runs(
    stack: LocalStack, connection: Connection, trigger: Trigger, ranges: list[OffsetRange], name: str
) -> None:
    own = plan(connection, trigger, ranges[0])
    finish(connection, own, ranges[0])
    batches.mark_handed_over(connection, [own])
    with attempt_lock(stack.database_url, own):
        taken = plan(connection, trigger, ranges[1], taken_by=own)
        assert batches.load(connection, taken).taken_by == own
        assert batches.unfinished(connection, name) == []
        # It failed, and its own run continues with it.
        batches.mark_handed_over(connection, [taken])
        assert batches.unfinished(connection, name) == [UnfinishedBatch(taken, handed_over=True)]
        connection.rollback()
    assert batches.unfinished(connection, name) == [UnfinishedBatch(taken, handed_over=False)]


def test_a_finished_batch_that_was_taken_lacks_its_run_once_its_taker_has_ended(
    stack: LocalStack, connection: Connection, trigger: Trigger, ranges: list[OffsetRange], name: str
) -> None:
    own = plan(connection, trigger, ranges[0])
    finish(connection, own, ranges[0])
    with attempt_lock(stack.database_url, own):
        taken = plan(connection, trigger, ranges[1], taken_by=own)
        finish(connection, taken, ranges[1])
        assert batches.finished_without_run(connection, name) == []
    assert batches.finished_without_run(connection, name) == [taken]
    assert batches.finished_without_run(connection, f"{name}-other") == []
    batches.mark_handed_over(connection, [taken])
    assert batches.finished_without_run(connection, name) == []


def test_a_taker_whose_process_is_gone_takes_nothing_any_more(
    stack: LocalStack, connection: Connection, trigger: Trigger, ranges: list[OffsetRange], name: str
) -> None:
    own = plan(connection, trigger, ranges[0])
    with attempt_lock(stack.database_url, own) as held:
        taken = plan(connection, trigger, ranges[1], taken_by=own)
        assert taken not in [batch.id for batch in batches.unfinished(connection, name)]
        connection.execute("SELECT pg_terminate_backend(%s)", (held.info.backend_pid,))
        eventually(
            lambda: taken in [batch.id for batch in batches.unfinished(connection, name)],
            seconds=10,
            what="the release of the lock",
        )


def test_marking_a_start_again_keeps_the_first_time(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange]
) -> None:
    batch_id = plan(connection, trigger, *ranges)
    batches.mark_handed_over(connection, [batch_id])
    connection.commit()
    before = batches.load(connection, batch_id).handed_over_at
    connection.commit()
    batches.mark_handed_over(connection, [batch_id])
    assert batches.load(connection, batch_id).handed_over_at == before


def test_young_batches_can_be_left_out(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange], name: str
) -> None:
    batch_id = plan(connection, trigger, *ranges)
    connection.execute(
        "UPDATE workorders.kafka_batches SET planned_at = now() - interval '60 s' WHERE id = %s", (batch_id,)
    )
    assert batches.unfinished(connection, name, older_than_seconds=59)
    assert not batches.unfinished(connection, name, older_than_seconds=61)


def test_the_time_since_the_last_batch_is_the_databases(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange]
) -> None:
    assert batches.seconds_since_last(connection, trigger.name) is None
    for range_, age in zip(ranges, (3600, 60), strict=True):
        batch_id = plan(connection, trigger, range_)
        connection.execute(
            "UPDATE workorders.kafka_batches SET planned_at = now() - %s * interval '1 s' WHERE id = %s",
            (age, batch_id),
        )
    assert batches.seconds_since_last(connection, trigger.name) == pytest.approx(60, abs=30)


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
    assert batches.last_planned(connection)[name] == newest.planned_at > oldest.planned_at
