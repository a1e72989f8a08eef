"""The ledger over virtual partitions: every order of finishing, and every crash between a commit and its move."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations, product
from typing import Any

import psycopg
import pytest

from local_stack.stack import LocalStack
from support.ingesting import attempts, everything, partition_of, plan, row
from workorders.core.creation.work_orders import Created
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.exceptions import LedgerConflictError
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ledger import batches, positions, stalls, virtual_partitions
from workorders.kafka.ledger.batches import BatchRange
from workorders.kafka.partitions import OffsetRange, VirtualPartition

pytestmark = pytest.mark.integration

BORDERS = (110, 120, 130)
ENDS = (*BORDERS, 140)


@pytest.fixture
def planned(name: str) -> OffsetRange:
    return OffsetRange(partition_of(name), 100, 140)


@pytest.fixture
def batch_id(connection: Connection, trigger: Trigger, planned: OffsetRange) -> int:
    return plan(connection, trigger, planned, cut_at=BORDERS)


@pytest.fixture
def begun(connection: Connection, batch_id: int) -> list[Attempt]:
    return attempts(connection, batch_id)


def finish(connection: Connection, attempt: Attempt, created: Created = Created(7, 2, 1)) -> None:  # noqa: B008 - frozen
    """Finish a virtual partition without its work orders."""
    assert isinstance(attempt.range, VirtualPartition)
    assert virtual_partitions.lock(connection, attempt.batch_id, attempt.range) is None
    virtual_partitions.finish(connection, attempt.batch_id, attempt.range, created)


def advance(connection: Connection, attempt: Attempt, mean_message_bytes: float | None = None) -> None:
    virtual_partitions.advance(connection, attempt.batch_id, attempt.range.planned, attempt.epoch, mean_message_bytes)


def the_range(connection: Connection, batch_id: int) -> BatchRange:
    (found,) = batches.load(connection, batch_id).ranges
    return found


@contextmanager
def undone(connection: Connection) -> Iterator[None]:
    with connection.transaction(force_rollback=True):
        yield


def test_a_batch_is_read_back_with_its_virtual_partitions(
    connection: Connection, batch_id: int, planned: OffsetRange, begun: list[Attempt]
) -> None:
    finish(connection, begun[1])
    found = the_range(connection, batch_id)
    assert [str(virtual.range) for virtual in found.virtual_partitions] == [
        f"{planned.partition.topic} 0 [{end - 10}, {end}) of [100, 140)" for end in ENDS
    ]
    assert [virtual.finished for virtual in found.virtual_partitions] == [False, True, False, False]
    assert found.virtual_partitions[1].messages == 10
    assert not found.finished
    assert [range_.range.start for range_ in found.to_ingest] == [100, 120, 130]


def test_the_ledger_is_at_the_first_gap_in_every_order_of_finishing(
    connection: Connection, trigger: Trigger, batch_id: int, begun: list[Attempt]
) -> None:
    for order in permutations(range(4)):
        with undone(connection):
            for number, place in enumerate(order, start=1):
                finish(connection, begun[place])
                advance(connection, begun[place])
                done = set(order[:number])
                first_gap = min(set(range(5)) - done)
                entry = row(connection, trigger)
                assert (entry.next_offset, entry.stored_end) == (100 + 10 * first_gap, 110 + 10 * max(done)), order
                found = the_range(connection, batch_id)
                assert found.finished == (number == 4), order
            assert (found.created, found.rejected, found.existing, found.messages) == (28, 8, 4, 40)


def test_the_ledger_catches_up_whichever_moves_a_crash_has_prevented(
    connection: Connection, trigger: Trigger, batch_id: int, begun: list[Attempt]
) -> None:
    for moves in product([True, False], repeat=4):
        with undone(connection):
            for attempt, moved in zip(reversed(begun), moves, strict=True):
                finish(connection, attempt)
                if moved:
                    advance(connection, attempt)
            positions.take_epoch(connection, batch_id)
            assert row(connection, trigger).next_offset == 140, moves
            assert the_range(connection, batch_id).finished


def test_a_move_over_nothing_new_changes_nothing(
    connection: Connection, trigger: Trigger, begun: list[Attempt]
) -> None:
    finish(connection, begun[0])
    advance(connection, begun[0])
    finish(connection, begun[2])
    positions.stall(connection, trigger, begun[0].range.planned, epoch=begun[0].epoch, error="no.")
    advance(connection, begun[2])
    entry = row(connection, trigger)
    assert (entry.next_offset, entry.status, entry.last_error) == (110, "stalled", "no.")


def test_an_older_attempt_moves_nothing(connection: Connection, trigger: Trigger, begun: list[Attempt]) -> None:
    finish(connection, begun[0])
    connection.execute("UPDATE workorders.kafka_ledger SET epoch = epoch + 1 WHERE trigger_id = %s", (trigger.id,))
    connection.commit()
    before = everything(connection, trigger)
    advance(connection, begun[0])
    assert everything(connection, trigger) == before


def test_a_range_that_a_decision_superseded_is_neither_finished_nor_passed(
    connection: Connection, trigger: Trigger, batch_id: int, begun: list[Attempt]
) -> None:
    for attempt in begun:
        finish(connection, attempt)
    (decision,) = connection.execute(
        """
        INSERT INTO workorders.kafka_decisions (actor, reason, trigger_id, topic, partition, kind, from_topic_id,
            from_offset, to_topic_id, to_offset)
        VALUES ('ada', 'a test', %s, 'a', 0, 'seek', 'a', 0, 'a', 0) RETURNING id
        """,
        (trigger.id,),
    ).fetchone() or (None,)
    connection.execute(
        "UPDATE workorders.kafka_ranges SET superseded_by = %s WHERE batch_id = %s", (decision, batch_id)
    )
    advance(connection, begun[0])
    assert row(connection, trigger).next_offset == 100
    assert not the_range(connection, batch_id).finished


def test_a_virtual_partition_that_was_not_planned_is_a_conflict(
    connection: Connection, batch_id: int, planned: OffsetRange
) -> None:
    with pytest.raises(LedgerConflictError, match=r"\[100, 115\) of \[100, 140\) was not planned"):
        virtual_partitions.lock(connection, batch_id, VirtualPartition(planned.partition, 100, 115, planned))


def test_an_attempt_that_died_without_an_error_is_recorded_with_what_it_has_stored(
    connection: Connection, trigger: Trigger, batch_id: int, planned: OffsetRange, begun: list[Attempt]
) -> None:
    finish(connection, begun[2])
    stalls.record_unexplained(connection, batches.load(connection, batch_id), begun[0].epoch)
    entry = row(connection, trigger)
    assert entry.status == "stalled"
    assert entry.last_error == (
        f"{planned}: the attempt ended without recording an error; 1 of 4 virtual partitions are stored."
    )


def try_in_another_session(stack: LocalStack, query: str, trigger: Trigger) -> bool:
    with connect(f"{stack.database_url}?options=-c%20lock_timeout%3D200ms", application_name="test") as other:
        try:
            other.execute(query, (trigger.id,))
        except psycopg.errors.LockNotAvailable:
            return False
        return True


@pytest.mark.parametrize(
    ("query", "is_free"),
    [
        pytest.param("UPDATE workorders.kafka_ledger SET next_offset = 110 WHERE trigger_id = %s", True, id="a move"),
        pytest.param("SELECT FROM workorders.kafka_ledger WHERE trigger_id = %s FOR KEY SHARE", True, id="another one"),
        pytest.param("SELECT FROM workorders.kafka_ledger WHERE trigger_id = %s FOR UPDATE", False, id="a new epoch"),
    ],
)
def test_a_virtual_partition_excludes_a_new_epoch_and_neither_others_nor_the_ledgers_move(
    stack: LocalStack, connection: Connection, trigger: Trigger, begun: list[Attempt], *, query: str, is_free: bool
) -> None:
    positions.lock(connection, trigger, begun[0].range.partition, is_shared=True)
    assert try_in_another_session(stack, query, trigger) == is_free


def test_a_new_attempt_waits_for_a_virtual_partition_at_work(
    stack: LocalStack, connection: Connection, trigger: Trigger, batch_id: int, begun: list[Attempt]
) -> None:
    positions.lock(connection, trigger, begun[0].range.partition, is_shared=True)
    url: Any = f"{stack.database_url}?options=-c%20lock_timeout%3D200ms"
    with connect(url, autocommit=True) as other, pytest.raises(psycopg.errors.LockNotAvailable):
        positions.take_epoch(other, batch_id)
    connection.rollback()
    with connect(url, autocommit=True) as other:
        assert positions.take_epoch(other, batch_id) > begun[0].epoch
