"""Why a range is stalled: recorded by the newest attempt, and by no other."""

import pytest

from local_stack.stack import LocalStack
from support.ingesting import partition_of, plan, row
from workorders.core.creation.work_orders import Created
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.ledger import batches, positions, stalls, virtual_partitions
from workorders.kafka.partitions import OffsetRange

pytestmark = pytest.mark.integration


@pytest.fixture
def ranges(name: str) -> list[OffsetRange]:
    return [OffsetRange(partition_of(name, number), 0, 5) for number in (0, 1)]


@pytest.fixture
def batch_id(connection: Connection, trigger: Trigger, ranges: list[OffsetRange]) -> int:
    return plan(connection, trigger, *ranges)


def begin(connection: Connection, batch_id: int) -> int:
    epoch = positions.take_epoch(connection, batch_id)
    connection.commit()
    return epoch


def write_down(connection: Connection, batch_id: int, epoch: int, errors: dict[OffsetRange, str]) -> None:
    stalls.record(connection, batches.load(connection, batch_id), epoch, errors)
    connection.commit()


def finish(connection: Connection, batch_id: int, range_: OffsetRange, epoch: int) -> None:
    virtual_partitions.finish_range(connection, batch_id, range_, epoch, Created(5, 0, 0))
    connection.commit()


def test_a_failure_stalls_its_partition_alone_and_keeps_its_reason(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange], batch_id: int
) -> None:
    epoch = begin(connection, batch_id)
    finish(connection, batch_id, ranges[0], epoch)
    write_down(connection, batch_id, epoch, {ranges[1]: "orders 1: no."})
    assert [row(connection, trigger, number).status for number in (0, 1)] == ["active", "stalled"]
    assert stalls.errors_of(batches.load(connection, batch_id)) == ["orders 1: no."]


def test_the_wait_doubles_with_every_attempt(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange], batch_id: int
) -> None:
    waits = []
    for _ in range(4):
        epoch = begin(connection, batch_id)
        stalls.record(connection, batches.load(connection, batch_id), epoch, {ranges[0]: "no"})
        # Asked before the commit, for now() is when the transaction began, and a commit may take seconds.
        found = connection.execute(
            "SELECT round(extract(epoch FROM next_attempt_at - now())) FROM workorders.kafka_ledger "
            "WHERE trigger_id = %s AND partition = 0",
            (trigger.id,),
        ).fetchone()
        assert found is not None
        waits.append(int(found[0]))
        connection.commit()
    assert waits == pytest.approx([1, 2, 4, 8], abs=1)


def test_an_attempt_that_died_is_named_for_every_range_that_it_left(
    connection: Connection, ranges: list[OffsetRange], batch_id: int
) -> None:
    finish(connection, batch_id, ranges[0], begin(connection, batch_id))
    assert stalls.errors_of(batches.load(connection, batch_id)) == [
        f"{ranges[1]}: the attempt ended without recording an error; nothing was committed there."
    ]


def test_a_replay_that_fails_keeps_its_reason_and_stalls_nothing(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange], batch_id: int
) -> None:
    epoch = begin(connection, batch_id)
    for range_ in ranges:
        finish(connection, batch_id, range_, epoch)
    write_down(connection, batch_id, begin(connection, batch_id), {ranges[0]: "orders 0: two are lost."})
    assert row(connection, trigger).status == "active"
    assert stalls.errors_of(batches.load(connection, batch_id)) == ["orders 0: two are lost."]


def test_an_error_that_comes_after_the_commit_stalls_nothing(
    connection: Connection, trigger: Trigger, ranges: list[OffsetRange], batch_id: int
) -> None:
    """The writer was taken for dead, or its connection broke during the commit; the next batch holds the partition."""
    epoch = begin(connection, batch_id)
    before = batches.load(connection, batch_id)
    finish(connection, batch_id, ranges[0], epoch)
    plan(connection, trigger, OffsetRange(ranges[0].partition, 5, 9))
    stalls.record(connection, before, epoch, dict.fromkeys(ranges, "the connection was lost"))
    assert [row(connection, trigger, number).status for number in (0, 1)] == ["active", "stalled"]
    assert stalls.errors_of(batches.load(connection, batch_id)) == ["the connection was lost"]


def test_a_range_that_is_being_written_holds_up_no_error_of_the_others(
    stack: LocalStack, connection: Connection, trigger: Trigger, ranges: list[OffsetRange], batch_id: int
) -> None:
    epoch = begin(connection, batch_id)
    with connect(stack.database_url) as writer:
        positions.lock(writer, trigger, ranges[0].partition)
        connection.execute("SET LOCAL lock_timeout = '1s'")
        write_down(connection, batch_id, epoch, dict.fromkeys(ranges, "the connection was lost"))
        assert [row(connection, trigger, number).status for number in (0, 1)] == ["active", "stalled"]
        connection.commit()
        finish(writer, batch_id, ranges[0], epoch)
    assert stalls.errors_of(batches.load(connection, batch_id)) == ["the connection was lost"]
