"""Virtual partitions on a real Postgres: together, twice at once, after a crash, and beside an operator's decision."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest

from local_stack.stack import LocalStack
from local_stack.waiting import wait_until
from support.eventually import eventually
from support.in_process_trigger import InProcessTrigger, decided, kept
from support.ingesting import (
    ProveEnd,
    attempts,
    everything,
    no_proof,
    partition_of,
    plan,
    row,
    same_log,
    waits_for_a_lock,
)
from support.topics import Topics
from support.work_orders import accepted, accepted_range, positions, rejected
from workorders.core.creation.work_orders import Created
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.exceptions import (
    DecisionRefusedError,
    FencedError,
    LedgerConflictError,
    UnexpectedMessageError,
)
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ingest.transaction import ingest
from workorders.kafka.ledger import batches, virtual_partitions
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange
from workorders.kafka.recovery.decisions import DecisionKind
from workorders.kafka.recovery.resolution import DecisionRequest

pytestmark = pytest.mark.integration

SECONDS = 60
BORDERS = (110, 120, 130)
TOPIC = 4000
"""Messages of a topic that is cut into four."""


@pytest.fixture
def planned(name: str) -> OffsetRange:
    return OffsetRange(partition_of(name), 100, 140)


@pytest.fixture
def stream(planned: OffsetRange) -> str:
    return stream_name(planned.partition)


@pytest.fixture
def batch_id(connection: Connection, trigger: Trigger, planned: OffsetRange) -> int:
    return plan(connection, trigger, planned, cut_at=BORDERS)


@pytest.fixture
def begun(connection: Connection, batch_id: int) -> list[Attempt]:
    return attempts(connection, batch_id)


def run(
    stack: LocalStack, made: Attempt, items: Iterable[Item] | None = None, prove_end: ProveEnd = no_proof
) -> Created:
    """Ingest on a separate connection, as an executor does; by default every offset has a message."""
    range_ = made.range
    whole = accepted_range(stream_name(range_.partition), range_.start, range_.end)
    with connect(stack.database_url) as own:
        return ingest(own, made, whole if items is None else items, prove_end, same_log)


def finished(connection: Connection, batch_id: int) -> list[bool]:
    """Return which virtual partitions are finished."""
    (range_,) = batches.load(connection, batch_id).ranges
    connection.rollback()
    return [virtual.finished for virtual in range_.virtual_partitions]


def offsets(connection: Connection, trigger: Trigger, stream: str) -> list[int]:
    found = sorted(position for position in positions(connection, trigger, stream) if position is not None)
    connection.rollback()
    return found


def test_virtual_partitions_are_written_at_the_same_time(
    stack: LocalStack, connection: Connection, trigger: Trigger, batch_id: int, *, begun: list[Attempt], stream: str
) -> None:
    together = Barrier(4)

    def items(made: Attempt) -> Iterator[Item]:
        yield from accepted_range(stream, made.range.start, made.range.end - 1)
        together.wait(SECONDS)  # every one has its locks now, and none has committed
        yield accepted(stream, made.range.end - 1)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda made: run(stack, made, items(made)), begun)) == [Created(10)] * 4
    assert offsets(connection, trigger, stream) == list(range(100, 140))
    assert row(connection, trigger).next_offset == 140
    (range_,) = batches.load(connection, batch_id).ranges
    assert (range_.finished, range_.created, range_.messages) == (True, 40, 40)


def test_the_ledger_never_passes_a_virtual_partition_that_is_not_stored(
    stack: LocalStack, connection: Connection, trigger: Trigger, batch_id: int, *, begun: list[Attempt], stream: str
) -> None:
    for place, next_offset in ((1, 100), (3, 100), (0, 120), (2, 140)):
        run(stack, begun[place])
        assert row(connection, trigger).next_offset == next_offset
        stored = set(offsets(connection, trigger, stream))
        assert set(range(100, next_offset)) <= stored
    assert all(finished(connection, batch_id))


def test_a_crash_between_a_commit_and_the_ledgers_move_costs_no_message_a_second_write(
    stack: LocalStack,
    connection: Connection,
    trigger: Trigger,
    batch_id: int,
    *,
    begun: list[Attempt],
    stream: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def crash(*_: object) -> None:
        raise ConnectionError("the worker died")

    with monkeypatch.context() as patched:
        patched.setattr(virtual_partitions, "advance", crash)
        for made in begun[:2]:
            with pytest.raises(ConnectionError):
                run(stack, made)
    assert row(connection, trigger).next_offset == 100
    stored = everything(connection, trigger)["work_orders"]
    rest = attempts(connection, batch_id)
    assert row(connection, trigger).next_offset == 120
    assert [made.range.start for made in rest] == [120, 130]
    for made in rest:
        run(stack, made)
    assert row(connection, trigger).next_offset == 140
    assert offsets(connection, trigger, stream) == list(range(100, 140))
    assert set(stored) <= set(everything(connection, trigger)["work_orders"])


def test_a_second_copy_of_one_attempt_reads_nothing_and_reports_what_the_first_has_stored(
    stack: LocalStack, connection: Connection, trigger: Trigger, begun: list[Attempt], stream: str
) -> None:
    run(stack, begun[0], [*accepted_range(stream, 100, 109), rejected(stream, 109)])

    read: list[Item] = []

    def items() -> Iterator[Item]:
        for item in accepted_range(stream, 100, 110):
            read.append(item)
            yield item

    assert run(stack, begun[0], items()) == Created(9, 1)
    assert not read
    assert offsets(connection, trigger, stream) == list(range(100, 110))


def test_of_two_copies_at_once_the_second_waits_and_reports_the_same(
    stack: LocalStack, connection: Connection, trigger: Trigger, begun: list[Attempt], stream: str
) -> None:
    reading, released = Event(), Event()

    def slow() -> Iterator[Item]:
        reading.set()
        assert released.wait(SECONDS)
        yield from accepted_range(stream, 100, 110)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run, stack, begun[0], slow())
        assert reading.wait(SECONDS)
        copy = pool.submit(run, stack, begun[0])
        assert wait_until(lambda: waits_for_a_lock(connection), seconds=SECONDS)
        released.set()
        assert (first.result(SECONDS), copy.result(SECONDS)) == (Created(10), Created(10))
    assert offsets(connection, trigger, stream) == list(range(100, 110))


def test_an_older_attempt_that_waits_for_the_new_epoch_sees_it(
    stack: LocalStack, connection: Connection, trigger: Trigger, batch_id: int, begun: list[Attempt]
) -> None:
    """The epoch is read after the lock, although the row's old version is what the statement finds first."""
    with ThreadPoolExecutor(1) as pool:
        with connection.transaction():
            connection.execute("SELECT FROM workorders.kafka_ledger WHERE trigger_id = %s FOR UPDATE", (trigger.id,))
            connection.execute(
                "UPDATE workorders.kafka_ledger SET epoch = epoch + 1 WHERE trigger_id = %s", (trigger.id,)
            )
            old = pool.submit(run, stack, begun[0])
            with connect(stack.database_url) as other:
                assert wait_until(lambda: waits_for_a_lock(other), seconds=SECONDS)
        with pytest.raises(FencedError):
            old.result(SECONDS)
    assert finished(connection, batch_id) == [False] * 4


def test_a_virtual_partition_that_fails_stalls_only_itself_and_the_ledger_stops_before_it(
    stack: LocalStack, connection: Connection, trigger: Trigger, batch_id: int, *, begun: list[Attempt], stream: str
) -> None:
    with pytest.raises(UnexpectedMessageError, match=r"of \[100, 140\)"):
        run(stack, begun[1], [accepted(stream, 125)])
    for place in (3, 0, 2):
        run(stack, begun[place])
    assert row(connection, trigger).next_offset == 110
    assert finished(connection, batch_id) == [True, False, True, True]
    (rest,) = attempts(connection, batch_id)
    assert (rest.range.start, rest.range.end) == (110, 120)
    run(stack, rest)
    assert row(connection, trigger).next_offset == 140
    assert all(finished(connection, batch_id))


@pytest.mark.parametrize("next_offset", [99, 111, 140])
def test_a_ledger_that_is_not_between_the_ranges_start_and_the_virtual_partition_is_a_conflict(
    stack: LocalStack, connection: Connection, trigger: Trigger, begun: list[Attempt], next_offset: int
) -> None:
    connection.execute(
        "UPDATE workorders.kafka_ledger SET next_offset = %(at)s, start_offset = least(start_offset, %(at)s) "
        "WHERE trigger_id = %(trigger)s",
        {"at": next_offset, "trigger": trigger.id},
    )
    connection.commit()
    with pytest.raises(LedgerConflictError):
        run(stack, begun[1])


@pytest.fixture
def cut(stack: LocalStack, topics: Topics, name: str) -> InProcessTrigger:
    """A trigger with a topic of four virtual partitions."""
    topics.create(name)
    topics.produce(name, [b"{}"] * TOPIC)
    return InProcessTrigger(stack, name, virtual_partitions=4)


def test_a_decision_in_the_middle_of_a_range_counts_what_is_stored_beyond_it_as_existing(
    stack: LocalStack, connection: Connection, topics: Topics, cluster: KafkaAdmin, *, cut: InProcessTrigger, name: str
) -> None:
    """Retention ate a part of the second of four; the first and the last are stored."""
    planned = cut.plan()
    assert planned.batch_id is not None
    prepared = cut.prepare(planned.batch_id)
    for place in (0, 3):
        cut.ingest(prepared.attempts[place])
    topics.delete_before(name, 1500)
    again = cut.prepare(planned.batch_id)
    assert list(again.unreadable) == [planned.ranges[0]]
    assert "[1000, 2000) of [0, 4000): offsets [1000, 1500) were deleted" in str(again.unreadable[planned.ranges[0]])
    assert [made.range.start for made in again.attempts] == [2000]
    assert row(connection, planned.trigger).status == "stalled"

    (decision,) = decided(stack, cluster, DecisionRequest(DecisionKind.SKIP_LOST, name, name)).decisions
    assert (decision.lost, decision.to_offset) == ((1000, 1500), 1500)
    with pytest.raises(FencedError):
        cut.ingest(again.attempts[0])
    following = cut.plan()
    assert following.batch_id is not None
    assert [(range_.start, range_.end) for range_ in following.ranges] == [(1500, TOPIC)]
    cut.attempt(following.batch_id)
    (stored,) = kept(connection, name).values()
    assert stored == [*range(1000), *range(1500, TOPIC)]
    (range_,) = batches.load(connection, following.batch_id).ranges
    assert (range_.created, range_.existing, range_.messages) == (1500, 1000, 2500)
    assert row(connection, planned.trigger).next_offset == TOPIC


def test_no_decision_is_made_while_a_virtual_partition_is_written(
    stack: LocalStack, cluster: KafkaAdmin, topics: Topics, cut: InProcessTrigger, name: str
) -> None:
    made = cut.prepare(cut.batch()).attempts[2]
    read, released = Event(), Event()

    def hold() -> None:
        read.set()
        assert released.wait(SECONDS)

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(cut.ingest, made, after_the_read=hold)
        try:
            eventually(read.is_set, seconds=SECONDS, what="a virtual partition that was read")
            with pytest.raises(DecisionRefusedError, match="is being written"):
                decided(stack, cluster, DecisionRequest(DecisionKind.SEEK, name, name, (0,), 0))
        finally:
            released.set()
        writer.result(SECONDS)
