"""Old batches become few, and a replay of each still finds its messages."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from local_stack.stack import LocalStack
from support.eventually import eventually
from support.ingesting import merge_batches, partition_of, plan
from workorders.core import triggers
from workorders.core.creation.work_orders import Created
from workorders.core.maintenance import retention
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.exceptions import ForeignBatchError, UnknownBatchError
from workorders.kafka.ledger import batch_merges, batches, positions
from workorders.kafka.ledger.attempt_lock import attempt_lock
from workorders.kafka.ledger.batch_merges import merge_old_batches, merge_taken
from workorders.kafka.partitions import OffsetRange, Partition

pytestmark = pytest.mark.integration


def in_days(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def numbers(connection: Connection, trigger: Trigger) -> list[tuple[int, int | None]]:
    """Return the trigger's batches: their numbers, and the first of those that were merged into each."""
    return connection.execute(
        "SELECT id, first_id FROM workorders.kafka_batches WHERE trigger_id = %s ORDER BY id", (trigger.id,)
    ).fetchall()


def finished(connection: Connection, trigger: Trigger, *ranges: OffsetRange, created: Created | None = None) -> int:
    """Record a batch whose ranges are finished, and return its number."""
    batch_id = plan(connection, trigger, *ranges)
    for range_ in ranges:
        batches.finish(connection, batch_id, range_, created or Created(range_.end - range_.start, 0, 0))
    connection.commit()
    return batch_id


@pytest.fixture
def partition(name: str) -> Partition:
    return partition_of(name)


@pytest.fixture
def three(connection: Connection, trigger: Trigger, partition: Partition) -> list[int]:
    """Finished batches of the offsets [0, 5), [5, 6) and [6, 9)."""
    return [
        finished(connection, trigger, OffsetRange(partition, start, end), created=Created(end - start - 1, 1, 2))
        for start, end in ((0, 5), (5, 6), (6, 9))
    ]


@pytest.fixture
def other_connection(stack: LocalStack) -> Iterator[Connection]:
    with connect(stack.database_url, application_name="test") as connection:
        yield connection


def test_each_number_of_a_merged_batch_finds_it_with_its_range_and_its_counts(
    connection: Connection, trigger: Trigger, partition: Partition, three: list[int]
) -> None:
    newest = batches.load(connection, three[-1]).ranges[0].finished_at
    merge_batches(connection)
    assert numbers(connection, trigger) == [(three[-1], three[0])]
    for number in three:
        batch = batches.load(connection, number)
        (part,) = batch.ranges
        assert (batch.id, batch.first_id, batch.trigger) == (three[-1], three[0], trigger)
        assert part.range == OffsetRange(partition, 0, 9)
        assert (part.created, part.rejected, part.existing, part.messages) == (6, 3, 6, 15)
        assert (part.finished_at, part.finished) == (newest, True)


def test_a_merged_range_has_no_virtual_partitions_because_its_replay_takes_all_of_it(
    connection: Connection, trigger: Trigger, partition: Partition
) -> None:
    for start in (0, 10):
        range_ = OffsetRange(partition, start, start + 10)
        batch_id = plan(connection, trigger, range_, cut_at=(start + 5,))
        batches.finish(connection, batch_id, range_, Created(10, 0, 0))
        connection.commit()
    merge_batches(connection)
    (part,) = batches.load(connection, batch_id).ranges
    assert (part.range, part.virtual_partitions) == (OffsetRange(partition, 0, 20), ())


def test_a_merged_batch_takes_up_later_ones_until_it_is_full(
    connection: Connection,
    trigger: Trigger,
    partition: Partition,
    three: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_merges, "MAX_OFFSETS", 10)
    merge_batches(connection)
    fourth = finished(connection, trigger, OffsetRange(partition, 9, 10))
    merge_batches(connection)
    fifth = finished(connection, trigger, OffsetRange(partition, 10, 11))
    merge_batches(connection)
    assert numbers(connection, trigger) == [(fourth, three[0]), (fifth, None)]


def test_batches_are_merged_when_they_are_older_than_their_trigger_says(
    connection: Connection, trigger: Trigger, three: list[int], name: str
) -> None:
    assert retention.delete_expired(connection, now=in_days(29), pause=lambda _: None).merged == 0
    triggers.register(
        connection, name=name, type_="kafka", workflow="admit", definition={"merge_batches_after_days": 2}
    )
    connection.commit()
    retention.delete_expired(connection, now=in_days(1), pause=lambda _: None)
    assert len(numbers(connection, trigger)) == 3
    connection.commit()
    assert retention.delete_expired(connection, now=in_days(3), pause=lambda _: None).merged == 2
    assert numbers(connection, trigger) == [(three[-1], three[0])]


def test_a_batch_that_was_planned_long_ago_and_finished_now_is_not_old(
    connection: Connection, trigger: Trigger, three: list[int]
) -> None:
    connection.execute("UPDATE workorders.kafka_batches SET planned_at = now() - interval '40 days'")
    merge_batches(connection, days=0)
    assert len(numbers(connection, trigger)) == 3


def test_a_step_is_limited_and_the_next_one_continues_with_the_batch_that_it_left(
    connection: Connection, trigger: Trigger, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_merges, "_STEP", 3)
    ids = [finished(connection, trigger, OffsetRange(partition, number, number + 1)) for number in range(8)]
    steps = [gone for gone in merge_old_batches(connection, in_days(31)) if gone]
    assert max(steps) == 2
    assert numbers(connection, trigger) == [(ids[-1], ids[0])]


def test_the_numbers_of_two_triggers_alternate_and_neither_gets_the_others_batch(
    connection: Connection, trigger: Trigger, name: str
) -> None:
    other = triggers.register(connection, name=f"{name}-2", type_="kafka", workflow="admit", definition={})
    mine, others = (
        [finished(connection, owner, OffsetRange(partition_of(name), start, start + 1)) for owner in (trigger, other)]
        for start in range(2)
    )
    merge_batches(connection)
    for number in (mine[0], others[0]):
        assert batches.load_own(connection, number, trigger.name).id == others[0]
    for number in (mine[1], others[1]):
        assert batches.load_own(connection, number, other.name).id == others[1]
    # The last numbers are those of the merged batches: each belongs to one trigger without a doubt.
    for number, foreign in ((others[0], other), (others[1], trigger)):
        with pytest.raises(ForeignBatchError):
            batches.load_own(connection, number, foreign.name)
    with pytest.raises(ForeignBatchError):
        batches.load_own(connection, mine[0], "a third one")
    with pytest.raises(
        UnknownBatchError, match=rf"in one of these: {others[0]} of {name}, {others[1]} of {name}-2; no"
    ):
        batches.load(connection, mine[1])


def test_a_number_that_was_merged_into_no_batch_is_unknown(
    connection: Connection, trigger: Trigger, three: list[int]
) -> None:
    merge_batches(connection)
    for number in (three[0] - 1_000_000, three[-1] + 1_000_000):
        with pytest.raises(UnknownBatchError, match=f"^There is no batch {number} in this database; see "):
            batches.load_own(connection, number, trigger.name)


class Meanwhile:
    """A connection on which something happens after the first query."""

    def __init__(self, connection: Connection, event: Callable[[], object]) -> None:
        self._connection, self._event = connection, event

    def execute(self, *arguments: Any) -> Any:
        """Execute, and let it happen once."""
        result = self._connection.execute(*arguments)
        event, self._event = self._event, lambda: None
        event()
        return result


def test_a_batch_that_is_merged_while_it_is_loaded_does_not_seem_to_be_empty(
    connection: Connection, other_connection: Connection, trigger: Trigger, partition: Partition, three: list[int]
) -> None:
    looking: Any = Meanwhile(other_connection, lambda: merge_batches(connection))
    assert [part.range for part in batches.load(looking, three[0]).ranges] == [OffsetRange(partition, 0, 9)]


def test_a_running_attempt_keeps_its_batch_as_it_is(
    stack: LocalStack, connection: Connection, trigger: Trigger, partition: Partition, three: list[int]
) -> None:
    last = finished(connection, trigger, OffsetRange(partition, 9, 10))
    with attempt_lock(stack.database_url, three[1]):
        merge_batches(connection)
        assert numbers(connection, trigger) == [(three[0], None), (three[1], None), (last, three[2])]
    merge_batches(connection)
    assert numbers(connection, trigger) == [(last, three[0])]


def test_an_attempt_that_begins_during_a_merge_waits_for_it_and_is_told_to_look_again(
    stack: LocalStack, connection: Connection, other_connection: Connection, trigger: Trigger, three: list[int]
) -> None:
    def attempt() -> None:
        with attempt_lock(stack.database_url, three[0]):
            pytest.fail("an attempt began")

    merge_and_stay(connection, trigger)
    with ThreadPoolExecutor(1) as pool:
        attempting = pool.submit(attempt)
        eventually(lambda: waits(other_connection, three[0]), seconds=10, what="an attempt that waits")
        connection.commit()
        with pytest.raises(UnknownBatchError):
            attempting.result(timeout=30)
    assert batches.load(connection, three[0]).id == three[-1]


def merge_and_stay(connection: Connection, trigger: Trigger) -> None:
    """Merge all batches of the trigger in a transaction that stays open; other triggers may have old batches too."""
    steps = merge_old_batches(connection, in_days(31))
    while len(numbers(connection, trigger)) > 1:
        next(steps)


def waits(connection: Connection, batch_id: int) -> bool:
    found = connection.execute(
        "SELECT FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'",
        (f"workorders attempt at batch {batch_id}",),
    ).fetchall()
    connection.rollback()
    return len(found) == 1


def test_a_merge_delays_no_planner_and_no_attempt_at_another_batch(
    stack: LocalStack,
    connection: Connection,
    other_connection: Connection,
    trigger: Trigger,
    partition: Partition,
    *,
    three: list[int],
) -> None:
    """Everything that the trigger's listener and its next ingest lock, while a step is open."""
    # The middle one has a partition of its own, whose row becomes that of the merged batch.
    alone = OffsetRange(partition_of(partition.topic, 1), 0, 3)
    finished(connection, trigger, alone)
    finished(connection, trigger, OffsetRange(partition, 9, 10))
    merge_and_stay(connection, trigger)
    other_connection.execute("SET lock_timeout = '1s'")
    positions.lock_trigger(other_connection, trigger)
    triggers.register(other_connection, name=trigger.name, type_="kafka", workflow="admit", definition={"a": 1})
    planned = plan(other_connection, trigger, OffsetRange(partition, 10, 20))
    with attempt_lock(stack.database_url, planned):
        positions.take_epoch(other_connection, planned)
        batches.finish(other_connection, planned, OffsetRange(partition, 10, 20), Created(10, 0, 0))
        positions.lock_group_commits(other_connection, trigger.id)
        other_connection.commit()
    connection.commit()
    assert [part.range for part in batches.load(connection, three[0]).ranges] == [OffsetRange(partition, 0, 10), alone]


class Planned(NamedTuple):
    """A range as it was planned; in the property below, everything that a merge may not lose."""

    generation: int
    start: int
    end: int
    messages: int | None
    """None if it is not finished."""


class Scene:
    """A trigger with three partitions whose batches end in all ways, and what the tables must have of them."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        name = f"test-{uuid4().hex[:12]}"
        self.topic = name
        self.trigger = triggers.register(connection, name=name, type_="kafka", workflow="admit", definition={})
        self.next = dict.fromkeys(range(3), 100)
        self.generation = dict.fromkeys(range(3), 0)
        self.held: dict[int, dict[int, OffsetRange]] = {}
        self.planned: dict[int, dict[int, Planned]] = {}
        for number in range(3):
            positions.insert(connection, self.trigger, partition_of(name, number), 100)
        connection.commit()

    def batch(self, lengths: Mapping[int, tuple[int, int]], end: str) -> None:
        """Plan a batch of the free partitions among these, and finish it, or not yet, or not all."""
        busy = {number for held in self.held.values() for number in held}
        ranges = {
            number: OffsetRange(partition_of(self.topic, number), self.next[number], self.next[number] + length)
            for number, (length, _) in lengths.items()
            if number not in busy
        }
        if not ranges:
            return
        batch_id = batches.create(self.connection, self.trigger, list(ranges.values()))
        self.planned[batch_id] = {
            number: Planned(self.generation[number], range_.start, range_.end, None)
            for number, range_ in ranges.items()
        }
        self.held[batch_id] = dict(ranges)
        if end == "superseded":
            self._supersede(batch_id, min(ranges))
        for number in list(self.held[batch_id]) if end != "held" else []:
            self._finish(batch_id, number, lengths[number][1])

    def finish_held(self) -> None:
        """Finish the oldest batch that waits."""
        for batch_id in list(self.held)[:1]:
            for number in list(self.held[batch_id]):
                self._finish(batch_id, number, 1)

    def _finish(self, batch_id: int, number: int, share: int) -> None:
        range_ = self.held[batch_id].pop(number)
        messages = (range_.end - range_.start) * share // 9
        created = Created(messages // 2, messages - messages // 2 - messages // 3, messages // 3)
        batches.finish(self.connection, batch_id, range_, created)
        self._set(number, range_.end)
        self.planned[batch_id][number] = self.planned[batch_id][number]._replace(messages=messages)

    def _supersede(self, batch_id: int, number: int) -> None:
        range_ = self.held[batch_id].pop(number)
        self._decide(number, range_.end, "", batch_id)
        self.connection.execute(
            "UPDATE workorders.kafka_ranges SET superseded_by = (SELECT max(id) FROM workorders.kafka_decisions) "
            "WHERE (batch_id, partition) = (%s, %s)",
            (batch_id, number),
        )

    def seek(self, number: int, by: int) -> None:
        """Let an operator set a free partition's ledger back or forward."""
        if not any(number in held for held in self.held.values()):
            self._decide(number, max(self.next[number] + by, 0), "")

    def truncate(self, number: int) -> None:
        """Let the offsets of a free partition mean other messages from here on."""
        if not any(number in held for held in self.held.values()):
            self._decide(number, self.next[number], ", generation = (SELECT max(id) FROM workorders.kafka_decisions)")
            (generation,) = self.connection.execute("SELECT max(id) FROM workorders.kafka_decisions").fetchone() or (0,)
            self.generation[number] = generation

    def _decide(self, number: int, to: int, more: str, batch_id: int | None = None) -> None:
        self.connection.execute(
            "INSERT INTO workorders.kafka_decisions (actor, reason, trigger_id, topic, partition, kind, from_topic_id, "
            "from_offset, to_topic_id, to_offset, superseded_batch_id) "
            "VALUES ('ada', 'a test', %s, %s, %s, 'seek', 'id', 0, 'id', %s, %s)",
            (self.trigger.id, self.topic, number, to, batch_id),
        )
        self._set(number, to, more)

    def _set(self, number: int, to: int, more: str = "") -> None:
        self.next[number] = to
        self.connection.execute(
            f"UPDATE workorders.kafka_ledger SET next_offset = %s, start_offset = 0 {more} "
            "WHERE (trigger_id, partition) = (%s, %s)".encode(),
            (to, self.trigger.id, number),
        )

    def check(self) -> None:
        """Every number finds its ranges, everything is covered as often as before, and nothing else was merged."""
        found = {}
        for batch_id, parts in self.planned.items():
            batch = batches.load_own(self.connection, batch_id, self.trigger.name)
            found[batch.id] = batch
            assert (batch.first_id or batch.id) <= batch_id <= batch.id
            now = {part.range.partition.partition: part for part in batch.ranges}
            for number, part in parts.items():
                assert now[number].generation == part.generation
                assert now[number].range.start <= part.start < part.end <= now[number].range.end
                assert now[number].finished == (part.messages is not None)
            if any(part.messages is None for part in parts.values()):
                assert (batch.id, batch.first_id, len(now)) == (batch_id, None, len(parts))
        in_tables = [
            (part.range.partition.partition, Planned(part.generation, part.range.start, part.range.end, part.messages))
            for batch in found.values()
            for part in batch.ranges
        ]
        as_planned = [(number, part) for parts in self.planned.values() for number, part in parts.items()]
        assert coverage(in_tables) == coverage(as_planned)
        assert sum(part.messages or 0 for _, part in in_tables) == sum(part.messages or 0 for _, part in as_planned)
        assert len(numbers(self.connection, self.trigger)) == len(found)
        for batch in found.values():
            assert batch.first_id is None or sum(p.range.end - p.range.start for p in batch.ranges) <= 40


def coverage(parts: list[tuple[int, Planned]]) -> Counter[tuple[int, int, int]]:
    """Return how often each offset of each log is in a range."""
    return Counter(
        (number, part.generation, offset) for number, part in parts for offset in range(part.start, part.end)
    )


number = st.integers(0, 2)
batch = st.tuples(
    st.just("batch"),
    st.dictionaries(number, st.tuples(st.sampled_from([5, 9, 1]), st.sampled_from([9, 5, 0])), min_size=1),
    st.sampled_from(["finished", "finished", "finished", "held", "superseded"]),
)
steps = st.lists(
    st.one_of(
        batch,
        batch,
        batch,
        st.tuples(st.just("finish_held")),
        st.tuples(st.just("seek"), number, st.sampled_from([-3, 2, -12])),
        st.tuples(st.just("truncate"), number),
        st.tuples(st.just("merge"), st.integers(2, 5)),
    ),
    min_size=10,
    max_size=30,
)


@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=steps)
def test_after_any_history_every_offset_is_covered_as_before_and_every_number_finds_its_own(
    connection: Connection, steps: list[tuple[Any, ...]]
) -> None:
    scene = Scene(connection)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(batch_merges, "MAX_OFFSETS", 40)
        for name, *arguments in steps:
            if name == "merge":
                changed.setattr(batch_merges, "_STEP", arguments[0])
                merge_batches(connection)
                scene.check()
            else:
                getattr(scene, name)(*arguments)
                connection.commit()
        merge_batches(connection)
        scene.check()


class Taking(NamedTuple):
    """The task of a finished batch of the offsets [0, 5), which takes others."""

    own: int
    take: Callable[..., int]
    """Records a batch of some offsets that the task took; finished unless said otherwise."""
    merge: Callable[[int], int | None]
    """Ends the task, which may merge up to so many offsets."""


@pytest.fixture
def taking(stack: LocalStack, connection: Connection, trigger: Trigger, partition: Partition) -> Iterator[Taking]:
    own = finished(connection, trigger, OffsetRange(partition, 0, 5))
    with attempt_lock(stack.database_url, own) as lock:

        def take(start: int, end: int, *, finish: bool = True) -> int:
            range_ = OffsetRange(partition, start, end)
            batch_id = plan(connection, trigger, range_, taken_by=own)
            if finish:
                batches.finish(connection, batch_id, range_, Created(end - start, 0, 0))
            connection.commit()
            return batch_id

        def merge(max_offsets: int) -> int | None:
            found = merge_taken(lock, own, max_offsets)
            lock.commit()
            return found

        yield Taking(own, take, merge)


def test_the_batches_that_a_task_took_become_one_with_its_own_which_needs_no_other_run(
    connection: Connection, trigger: Trigger, taking: Taking
) -> None:
    last = [taking.take(start, start + 1) for start in (5, 6, 7)][-1]
    assert taking.merge(8) == last
    assert numbers(connection, trigger) == [(last, taking.own)]
    assert batches.load(connection, taking.own).handed_over_at is not None
    assert batches.taken_without_run(connection, taking.own) == []


def test_what_is_too_large_for_one_batch_keeps_its_own_runs(
    connection: Connection, trigger: Trigger, taking: Taking
) -> None:
    large, *_, last = (taking.take(*range_) for range_ in ((5, 13), (13, 14), (14, 15)))
    assert taking.merge(8) is None
    assert numbers(connection, trigger) == [(taking.own, None), (large, None), (last, last - 1)]
    assert batches.taken_without_run(connection, taking.own) == [large, last]


def test_an_unfinished_batch_is_not_merged_by_the_task_that_took_it(
    connection: Connection, trigger: Trigger, taking: Taking
) -> None:
    first, unfinished = taking.take(5, 6), taking.take(6, 7, finish=False)
    assert taking.merge(100) == first
    assert numbers(connection, trigger) == [(first, taking.own), (unfinished, None)]


def test_a_batch_that_the_listener_planned_is_not_merged_by_a_task(
    connection: Connection, trigger: Trigger, partition: Partition, taking: Taking
) -> None:
    first = taking.take(5, 6)
    listed = finished(connection, trigger, OffsetRange(replace(partition, partition=1), 0, 1))
    assert taking.merge(100) == first
    assert numbers(connection, trigger) == [(first, taking.own), (listed, None)]


def test_the_offsets_of_a_batch_that_a_task_took_are_committed_with_its_own_also_if_that_was_merged(
    connection: Connection, trigger: Trigger, partition: Partition, taking: Taking
) -> None:
    taking.take(5, 6)
    other = replace(partition, partition=1)
    plan(connection, trigger, OffsetRange(other, 7, 9), taken_by=taking.own)
    merged = taking.merge(100)
    assert merged is not None
    assert set(positions.positions_of_batch(connection, merged)) == {partition, other}
