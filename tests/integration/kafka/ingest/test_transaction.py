"""The one transaction of a range, on a real Postgres, with every way in which a reader or a rival can misbehave."""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import NoReturn

import pytest

from local_stack.stack import LocalStack
from local_stack.waiting import wait_until
from support.ingesting import (
    Proof,
    ProveEnd,
    ProveSameLog,
    attempt,
    everything,
    no_proof,
    partition_of,
    plan,
    row,
    same_log,
    waits_for_a_lock,
)
from support.work_orders import accepted, accepted_range, positions, rejected, remove
from workorders.core import triggers, workflows
from workorders.core.creation.work_orders import Created, create_for
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import DuplicateItemsError
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.exceptions import (
    DataLostError,
    FencedError,
    IncompleteReadError,
    LedgerConflictError,
    RangeError,
    TopicRecreatedError,
    UnexpectedMessageError,
    WorkflowFullError,
)
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ingest.transaction import ingest
from workorders.kafka.ledger import batches
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange

pytestmark = pytest.mark.integration


@pytest.fixture
def planned(name: str) -> OffsetRange:
    return OffsetRange(partition_of(name), 100, 110)


@pytest.fixture
def stream(planned: OffsetRange) -> str:
    return stream_name(planned.partition)


@pytest.fixture
def batch_id(connection: Connection, trigger: Trigger, planned: OffsetRange) -> int:
    return plan(connection, trigger, planned)


@pytest.fixture
def first(connection: Connection, batch_id: int) -> Attempt:
    return attempt(connection, batch_id)


def run(
    stack: LocalStack,
    made: Attempt,
    items: Iterable[Item],
    prove_end: ProveEnd = no_proof,
    prove_same_log: ProveSameLog = same_log,
) -> Created:
    """Ingest on a separate connection, as an executor does."""
    with connect(stack.database_url) as own:
        return ingest(own, made, items, prove_end, prove_same_log)


def assert_refused(
    stack: LocalStack,
    connection: Connection,
    made: Attempt,
    items: Iterable[Item],
    error: type[Exception],
    *,
    prove_end: ProveEnd = no_proof,
) -> str:
    """The attempt fails with this error, and the database is as it was before."""
    before = everything(connection, made.trigger)
    with pytest.raises(error) as raised:
        run(stack, made, items, prove_end)
    assert everything(connection, made.trigger) == before
    return str(raised.value)


def test_a_fresh_range_becomes_work_orders_moves_the_ledger_and_is_finished(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, stream: str
) -> None:
    items = [*accepted_range(stream, 100, 108), rejected(stream, 108), accepted(stream, 109)]
    assert run(stack, first, items) == Created(9, 1, 0)
    assert positions(connection, trigger, stream) == list(range(100, 110))
    entry = row(connection, trigger)
    assert (entry.next_offset, entry.status, entry.attempts, entry.batch_id) == (110, "active", 0, None)
    (range_,) = batches.load(connection, first.batch_id).ranges
    assert (range_.finished, range_.created, range_.rejected) == (True, 9, 1)


def test_everything_of_a_range_becomes_visible_in_one_transaction(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, stream: str
) -> None:
    connection.autocommit = True
    seen: list[tuple[int, int]] = []

    def items() -> Iterator[Item]:
        for item in accepted_range(stream, 100, 109):
            seen.append((len(positions(connection, trigger, stream)), row(connection, trigger).next_offset))
            yield item

    def prove_end(_: int) -> None:
        seen.append((len(positions(connection, trigger, stream)), row(connection, trigger).next_offset))

    run(stack, first, items(), prove_end)
    assert set(seen) == {(0, 100)}
    assert (len(positions(connection, trigger, stream)), row(connection, trigger).next_offset) == (9, 110)
    connection.autocommit = False


def test_the_ledger_learns_the_size_of_messages(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, stream: str
) -> None:
    items = [Item(stream, 100, b"{}", b'{"a":"%b"}' % (b"x" * 92)), rejected(stream, 109, None)]
    run(stack, first, items)
    (position,) = ledger.positions(connection, trigger.name).values()
    assert position.mean_message_bytes == pytest.approx((2 + 100 + len(items[1].request)) / 2)


def test_ids_grow_along_a_partition_also_if_the_clock_of_the_next_executor_is_behind(  # noqa: PLR0917 - fixtures
    stack: LocalStack,
    connection: Connection,
    trigger: Trigger,
    finished: Attempt,
    stream: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    next_batch = plan(connection, trigger, OffsetRange(finished.range.partition, 110, 112))
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now - 60 * 10**9)
    run(stack, attempt(connection, next_batch), accepted_range(stream, 110, 112))
    assert positions(connection, trigger, stream) == list(range(100, 112))


def test_gaps_in_a_range_are_no_loss(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, stream: str
) -> None:
    assert run(stack, first, [accepted(stream, 103), accepted(stream, 109)]) == Created(2, 0, 0)
    assert row(connection, trigger).next_offset == 110


def test_a_range_that_ends_early_is_proved_from_behind_its_last_message(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, stream: str
) -> None:
    proof = Proof()
    assert run(stack, first, accepted_range(stream, 100, 107), proof) == Created(7, 0, 0)
    assert proof.asked == (107,)
    assert row(connection, trigger).next_offset == 110


def test_a_range_without_a_visible_message_is_proved_from_its_start_and_moves_the_ledger(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt
) -> None:
    proof = Proof()
    assert run(stack, first, [], proof) == Created(0, 0, 0)
    assert proof.asked == (100,)
    assert row(connection, trigger).next_offset == 110
    assert batches.load(connection, first.batch_id).ranges[0].finished


@pytest.mark.parametrize("failure", [IncompleteReadError("there is a message at 107"), RuntimeError("no broker")])
def test_nothing_is_committed_when_the_end_cannot_be_proved(
    stack: LocalStack, connection: Connection, first: Attempt, stream: str, failure: Exception
) -> None:
    items = accepted_range(stream, 100, 107)
    assert_refused(stack, connection, first, items, type(failure), prove_end=Proof(failure))


@pytest.mark.parametrize("count", [0, 1, 5, 10])
def test_nothing_is_committed_when_the_reader_fails_in_the_middle(
    stack: LocalStack, connection: Connection, first: Attempt, stream: str, count: int
) -> None:
    def items() -> Iterator[Item]:
        yield from accepted_range(stream, 100, 100 + count)
        raise RuntimeError("the reader broke")

    assert_refused(stack, connection, first, items(), RuntimeError)
    assert run(stack, attempt(connection, first.batch_id), accepted_range(stream, 100, 110)) == Created(10, 0, 0)


@pytest.mark.parametrize(
    ("offsets", "due"),
    [
        pytest.param([99], "[100, 110)", id="before the range"),
        pytest.param([100, 110], "[101, 110)", id="behind the range"),
        pytest.param([100, 102, 101], "[103, 110)", id="out of order"),
        pytest.param([100, 101, 101], "[102, 110)", id="twice"),
    ],
)
def test_a_message_that_is_not_the_ranges_next_one_is_refused(
    stack: LocalStack, connection: Connection, first: Attempt, offsets: list[int], due: str
) -> None:
    stream = stream_name(first.range.partition)
    items = [accepted(stream, offset) for offset in offsets]
    text = assert_refused(stack, connection, first, items, UnexpectedMessageError)
    assert text == (
        f"{first.trigger.name}: the reader of {first.range} delivered offset {offsets[-1]} instead of one in {due}; "
        f"nothing was committed there. [WO-READ-UNEXPECTED]"
    )


def test_an_older_attempt_is_fenced_and_changes_nothing(
    stack: LocalStack, connection: Connection, first: Attempt, stream: str
) -> None:
    newer = attempt(connection, first.batch_id)
    assert newer.epoch > first.epoch
    text = assert_refused(stack, connection, first, accepted_range(stream, 100, 110), FencedError)
    assert f"(epoch {first.epoch}) was fenced by a newer one (epoch {newer.epoch}); nothing was committed here." in text
    assert run(stack, newer, accepted_range(stream, 100, 110)) == Created(10, 0, 0)


def test_the_same_attempt_twice_commits_once(
    stack: LocalStack, connection: Connection, first: Attempt, stream: str
) -> None:
    """Spark may run a task a second time after its first run committed."""
    run(stack, first, accepted_range(stream, 100, 110))
    text = assert_refused(stack, connection, first, accepted_range(stream, 100, 110), LedgerConflictError)
    assert "the ledger is at 110 and not at the range's start; nothing was committed; save this log" in text


@pytest.mark.parametrize("next_offset", [101, 109, 200])
def test_a_ledger_that_is_not_at_the_ranges_start_is_a_conflict(
    stack: LocalStack, connection: Connection, first: Attempt, stream: str, next_offset: int
) -> None:
    connection.execute(
        "UPDATE workorders.kafka_ledger SET next_offset = %s WHERE trigger_id = %s", (next_offset, first.trigger.id)
    )
    connection.commit()
    assert_refused(stack, connection, first, accepted_range(stream, 100, 110), LedgerConflictError)


def test_a_partition_that_was_taken_out_of_the_ledger_is_fenced(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, stream: str
) -> None:
    connection.execute("DELETE FROM workorders.kafka_ledger WHERE trigger_id = %s", (trigger.id,))
    connection.commit()
    assert_refused(stack, connection, first, accepted_range(stream, 100, 110), FencedError)


def test_a_ledger_that_follows_another_topic_of_that_name_is_not_moved(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, stream: str
) -> None:
    connection.execute("UPDATE workorders.kafka_ledger SET topic_id = 'other' WHERE trigger_id = %s", (trigger.id,))
    connection.commit()
    assert_refused(stack, connection, first, accepted_range(stream, 100, 110), TopicRecreatedError)


def test_a_range_of_another_batch_that_is_finished_already_is_fenced(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, stream: str
) -> None:
    """No order of events leads here; the mark that a range is finished is written once nevertheless."""
    connection.execute(
        "UPDATE workorders.kafka_ranges SET finished_at = now(), created = 0, rejected = 0 WHERE batch_id = %s",
        (first.batch_id,),
    )
    connection.commit()
    text = assert_refused(stack, connection, first, accepted_range(stream, 100, 110), FencedError)
    assert "was finished by another attempt; nothing was committed here." in text


def test_work_orders_that_are_there_before_their_range_are_kept_and_not_doubled(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, stream: str
) -> None:
    """The ledger went back behind them: an operator started over, or restored an older ledger."""
    create_for(connection, trigger, [accepted(stream, 105)])
    connection.commit()
    assert run(stack, first, accepted_range(stream, 100, 110)) == Created(9, 0, 1)
    assert sorted(positions(connection, trigger, stream), key=int) == list(range(100, 110))  # type: ignore[arg-type]
    (range_,) = batches.load(connection, first.batch_id).ranges
    assert (range_.created, range_.existing, range_.messages) == (9, 1, 10)
    assert row(connection, trigger).next_offset == 110


def test_a_work_order_that_comes_in_between_fails_the_attempt_and_is_not_doubled(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, stream: str
) -> None:
    """A replay of another batch restores one, right after this attempt found that there was none."""

    def items() -> Iterator[Item]:
        create_for(connection, trigger, [accepted(stream, 105)])
        connection.commit()
        yield from accepted_range(stream, 100, 110)

    with pytest.raises(DuplicateItemsError):
        run(stack, first, items())
    assert positions(connection, trigger, stream) == [105]
    connection.rollback()
    assert run(stack, attempt(connection, first.batch_id), accepted_range(stream, 100, 110)) == Created(9, 0, 1)


@pytest.mark.parametrize("replayed", [False, True])
def test_the_topic_is_looked_at_behind_the_last_message_and_before_the_commit(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, stream: str, *, replayed: bool
) -> None:
    if replayed:
        run(stack, first, accepted_range(stream, 100, 110))
        remove(connection, trigger, [105])
        connection.commit()
        first = attempt(connection, first.batch_id)
    seen: list[str] = []

    def items() -> Iterator[Item]:
        yield from accepted_range(stream, 100, 107)
        seen.append("read")

    def topic_recreated() -> NoReturn:
        seen.append("looked")
        raise TopicRecreatedError("another topic")

    before = everything(connection, trigger)
    with pytest.raises(TopicRecreatedError):
        run(stack, first, items(), lambda _: seen.append("proved the end"), topic_recreated)
    assert seen == ["read", "proved the end", "looked"]
    assert everything(connection, trigger) == before


def test_of_two_attempts_at_once_exactly_the_newer_one_wins(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, stream: str
) -> None:
    newer = attempt(connection, first.batch_id)
    barrier = Barrier(2)

    def race(made: Attempt) -> Created | RangeError:
        def items() -> Iterator[Item]:
            yield from accepted_range(stream, 100, 110)

        barrier.wait(30)
        try:
            return run(stack, made, items())
        except RangeError as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        old, new = pool.map(race, [first, newer])
    assert isinstance(old, FencedError)
    assert new == Created(10, 0, 0)
    assert positions(connection, trigger, stream) == list(range(100, 110))


def test_a_newer_attempt_waits_for_the_one_that_holds_the_ledger_and_then_changes_nothing(
    stack: LocalStack, connection: Connection, trigger: Trigger, first: Attempt, stream: str
) -> None:
    """Spark's second copy of a task, while the first is in the middle of its range."""
    begun, released = Event(), Event()

    def slow_items() -> Iterator[Item]:
        begun.set()
        assert released.wait(30)
        yield from accepted_range(stream, 100, 110)

    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(run, stack, first, slow_items())
        assert begun.wait(30)
        copy = pool.submit(run, stack, first, accepted_range(stream, 100, 110))
        assert wait_until(lambda: waits_for_a_lock(connection), seconds=30)
        released.set()
        assert slow.result(60) == Created(10, 0, 0)
        with pytest.raises(LedgerConflictError):
            copy.result(60)
    assert positions(connection, trigger, stream) == list(range(100, 110))


@pytest.fixture
def finished(stack: LocalStack, first: Attempt, stream: str) -> Attempt:
    """An attempt that is done: 9 inputs, one rejection."""
    run(stack, first, [*accepted_range(stream, 100, 109), rejected(stream, 109)])
    return first


def whole(stream: str) -> list[Item]:
    return [*accepted_range(stream, 100, 109), rejected(stream, 109)]


def test_a_replay_adds_nothing_and_moves_nothing(
    stack: LocalStack, connection: Connection, trigger: Trigger, finished: Attempt, stream: str
) -> None:
    replay = attempt(connection, finished.batch_id)
    before = everything(connection, trigger)
    assert replay.is_replay
    assert run(stack, replay, whole(stream)) == Created(0, 0, 10)
    assert everything(connection, trigger) == before


def test_a_replay_takes_no_partition_from_the_batch_that_reads_on(
    stack: LocalStack, connection: Connection, trigger: Trigger, finished: Attempt, stream: str
) -> None:
    next_batch = plan(connection, trigger, OffsetRange(finished.range.partition, 110, 115))
    reads_on = attempt(connection, next_batch)
    assert run(stack, attempt(connection, finished.batch_id), whole(stream)) == Created(0, 0, 10)
    assert run(stack, reads_on, accepted_range(stream, 110, 115)) == Created(5, 0, 0)
    assert row(connection, trigger).next_offset == 115


def test_a_replay_needs_no_capacity_for_work_orders_that_exist(
    stack: LocalStack, connection: Connection, name: str
) -> None:
    limit(connection, name, 5)
    trigger = triggers.register(connection, name=name, type_="kafka", workflow=name, definition={})
    partition = partition_of(name)
    batch_id = plan(connection, trigger, OffsetRange(partition, 0, 5))
    for expected in (Created(5), Created(existing=5)):
        items = accepted_range(stream_name(partition), 0, 5)
        assert run(stack, attempt(connection, batch_id), items) == expected
    remove(connection, trigger, [1])
    limit(connection, name, 4)
    with pytest.raises(WorkflowFullError):
        run(stack, attempt(connection, batch_id), items)


def limit(connection: Connection, workflow: str, waiting: int) -> None:
    limits = {"max_waiting": waiting, "on_reached": "wait"}
    definition = {"name": workflow, "callable": "json:loads", "limits": limits}
    workflows.register(connection, WorkflowDefinition.model_validate(definition))
    connection.commit()


def test_a_replay_without_the_beginning_is_whole_when_its_work_orders_are_there(
    stack: LocalStack, connection: Connection, finished: Attempt, stream: str
) -> None:
    replay = attempt(connection, finished.batch_id, read_from=105)
    assert run(stack, replay, whole(stream)[5:]) == Created(0, 0, 5)


def test_a_replay_of_a_range_that_kafka_has_deleted_needs_no_proof(
    stack: LocalStack, connection: Connection, finished: Attempt
) -> None:
    assert run(stack, attempt(connection, finished.batch_id, read_from=110), []) == Created(0, 0, 0)


def test_a_replay_that_cannot_restore_everything_restores_the_rest_and_reports_how_much_is_lost(
    stack: LocalStack, connection: Connection, trigger: Trigger, finished: Attempt, stream: str
) -> None:
    remove(connection, trigger, [101, 102, 107])
    connection.commit()
    replay = attempt(connection, finished.batch_id, read_from=105)
    with pytest.raises(DataLostError) as raised:
        run(stack, replay, whole(stream)[5:])
    assert str(raised.value) == (
        f"{trigger.name}: 2 of the 10 messages of {finished.range} have no work order any more and cannot be restored, "
        f"because Kafka does not have offsets [100, 105) any more; all others exist. [WO-DATA-LOST]"
    )
    assert sorted(positions(connection, trigger, stream), key=int) == [  # type: ignore[arg-type]
        100, *range(103, 110)
    ]  # fmt: skip


def test_a_replay_that_ends_early_is_proved_as_well(
    stack: LocalStack, connection: Connection, trigger: Trigger, finished: Attempt, stream: str
) -> None:
    remove(connection, trigger, [102])
    connection.commit()
    replay = attempt(connection, finished.batch_id)
    proof = Proof(IncompleteReadError("there is a message at 107"))
    assert_refused(stack, connection, replay, accepted_range(stream, 100, 107), IncompleteReadError, prove_end=proof)
    assert proof.asked == (107,)


def test_two_replays_at_once_restore_each_message_once(
    stack: LocalStack, connection: Connection, trigger: Trigger, finished: Attempt, stream: str
) -> None:
    remove(connection, trigger, range(100, 110))
    connection.commit()
    replays = [attempt(connection, finished.batch_id) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda replay: run(stack, replay, whole(stream)), replays)
    assert one + other == Created(9, 1, 10)
    assert sorted(positions(connection, trigger, stream), key=int) == list(range(100, 110))  # type: ignore[arg-type]
