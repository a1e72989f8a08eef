"""Decisions on a real broker and Postgres: after each kind the trigger continues, and work orders are counted."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from local_stack.stack import LocalStack
from support.eventually import eventually
from support.groups import commit
from support.in_process_trigger import TEN, Decided, InProcessTrigger, decided, kept
from support.ingesting import everything, finish, row, waits_for_a_lock
from support.runs import keeping
from support.topics import Topics
from support.work_orders import remove
from workorders.core.attribution import Attribution
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.core.triggers import find as find_trigger
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.requests import Answers
from workorders.kafka.client.settings import client_settings
from workorders.kafka.exceptions import (
    DataLostError,
    DecisionRefusedError,
    DecisionUncertainError,
    FencedError,
    TopicRecreatedError,
)
from workorders.kafka.ledger import batches
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.partitions import OffsetRange, Partition, PartitionOffsets
from workorders.kafka.planning.planner import plan_batch
from workorders.kafka.recovery.decisions import Decision, DecisionKind
from workorders.kafka.recovery.resolution import (
    DecisionRequest,
    RecordedDecision,
    apply,
    list_decisions,
    preview,
)

pytestmark = pytest.mark.integration

Resolve = Callable[..., Decided]


@pytest.fixture
def resolve(stack: LocalStack, cluster: KafkaAdmin, name: str) -> Resolve:
    """Considers and makes a decision on separate connections, as the command does."""

    def resolved(kind: DecisionKind, *partitions: int, offset: int | None = None, topic: str = "") -> Decided:
        return decided(stack, cluster, DecisionRequest(kind, name, topic or name, partitions, offset))

    return resolved


def considered(stack: LocalStack, cluster: KafkaAdmin, wish: DecisionRequest) -> list[Decision]:
    with connect(stack.database_url) as own:
        return preview(own, cluster, wish)


def stream(trigger: InProcessTrigger, number: int = 0, suffix: str = "") -> str:
    (partition,) = (
        partition
        for partition in run(trigger.cluster.partitions(trigger.definition.topics)).found
        if partition.partition == number
    )
    return f"{ledger.stream_name(partition)}{suffix}"


def next_offsets(connection: Connection, name: str) -> dict[int, int]:
    connection.rollback()
    return {
        partition.partition: position.next_offset for partition, position in ledger.positions(connection, name).items()
    }


def last(connection: Connection, name: str) -> RecordedDecision:
    connection.rollback()
    return list_decisions(connection, name)[0]


def found(connection: Connection, name: str) -> Trigger:
    connection.rollback()
    return find_trigger(connection, name)


# --- noticed at planning, and again right before the commit -----------------------------------------------------------


def test_a_topic_recreated_while_it_is_read_commits_nothing(
    connection: Connection, topics: Topics, idle_trigger: InProcessTrigger, name: str
) -> None:
    topics.produce(name, TEN)
    (attempt,) = idle_trigger.prepare(idle_trigger.batch()).attempts
    before = everything(connection, found(connection, name))

    def recreated() -> None:
        idle_trigger.recreated(lambda: topics.delete(name), lambda: topics.create(name))
        topics.produce(name, TEN * 3)

    with pytest.raises(TopicRecreatedError, match=r"was deleted and re-created.*`workorders resolve accept-topic "):
        idle_trigger.ingest(attempt, after_the_read=recreated)
    assert everything(connection, found(connection, name)) == before


def test_a_topic_recreated_with_fewer_partitions_stalls_those_that_are_gone(
    connection: Connection, stack: LocalStack, topics: Topics, name: str
) -> None:
    topics.create(name, partitions=3)
    trigger = InProcessTrigger(stack, name)
    trigger.until_idle()
    trigger.recreated(lambda: topics.delete(name), lambda: topics.create(name))
    trigger.stalled_batch()
    trigger_row = found(connection, name)
    assert [row(connection, trigger_row, number).status for number in range(3)] == ["stalled"] * 3
    assert "was deleted and re-created" in (row(connection, trigger_row, 0).last_error or "")
    assert "does not have this partition any more" in (row(connection, trigger_row, 2).last_error or "")


# --- each kind of decision --------------------------------------------------------------------------------------------


def test_after_a_gap_reading_continues_at_the_first_offset_that_kafka_has(
    connection: Connection, topics: Topics, idle_trigger: InProcessTrigger, resolve: Resolve, name: str
) -> None:
    topics.produce(name, TEN)
    topics.delete_before(name, 15)
    batch_id = idle_trigger.stalled_batch()
    stalled = row(connection, found(connection, name)).last_error or ""
    assert f"offsets [10, 15) were deleted by retention before they were read; {UNTOUCHED}" in stalled
    assert f"`workorders resolve skip-lost {name} {name} --partition 0`" in stalled
    made = resolve(DecisionKind.SKIP_LOST)
    assert made.warnings == []
    idle_trigger.until_idle()
    assert kept(connection, name) == {stream(idle_trigger): [*range(10), *range(15, 20)]}
    decision = last(connection, name)
    assert (decision.id, decision.actor, decision.reason, decision.kind) == (
        made.numbers[0], "ada", "a test", "skip-lost"
    )  # fmt: skip
    assert (decision.from_offset, decision.to_offset) == (10, 15)
    assert (decision.lost_start, decision.lost_end, decision.superseded_batch_id) == (10, 15, batch_id)
    assert row(connection, found(connection, name)).status == "active"


UNTOUCHED = "nothing was committed there and nothing was skipped; an operator must decide how to continue"


@pytest.mark.parametrize(("partitions", "messages"), [(2, 4), (2, 25), (3, 4), (1, 4), (1, 25)], ids=str)
def test_a_new_topic_is_followed_from_its_first_offset_and_the_old_work_orders_stay(
    connection: Connection,
    stack: LocalStack,
    topics: Topics,
    resolve: Resolve,
    *,
    name: str,
    partitions: int,
    messages: int,
) -> None:
    """Re-created with the same number of partitions, more or fewer, and with lower or higher offsets."""
    topics.create(name, partitions=2)
    for number in range(2):
        topics.produce(name, TEN, partition=number)
    trigger = InProcessTrigger(stack, name)
    trigger.until_idle()
    old = {stream(trigger, number): list(range(10)) for number in range(2)}
    trigger.recreated(lambda: topics.delete(name), lambda: topics.create(name, partitions=partitions))
    again = Topics(stack.kafka_settings)  # a producer of before knows the old topic's partitions
    for number in range(partitions):
        again.produce(name, [b"{}"] * messages, partition=number)
    assert len(trigger.attempt(trigger.batch()).unreadable) == 2
    assert len(resolve(DecisionKind.ACCEPT_TOPIC).decisions) == 2
    trigger.until_idle()
    new = {stream(trigger, number): list(range(messages)) for number in range(partitions)}
    assert kept(connection, name) == old | new
    assert trigger.plan().batch_id is None
    replay = trigger.attempt(batches.summaries(connection, name)[-1].id)
    assert (len(replay.not_read), replay.unreadable) == (2, {})
    assert kept(connection, name) == old | new
    # A partition that the new topic lacks is read from its first offset when it comes.
    if partitions == 1:
        topics.grow(name, 2)
        Topics(stack.kafka_settings).produce(name, TEN, partition=1)
        trigger.until_idle()
        assert kept(connection, name)[stream(trigger, 1)] == list(range(10))


@pytest.mark.parametrize("seek", [None, 5], ids=["at the end", "went back"])
def test_after_a_truncated_log_the_same_offsets_are_new_messages_that_no_old_replay_reads(
    connection: Connection,
    topics: Topics,
    idle_trigger: InProcessTrigger,
    *,
    resolve: Resolve,
    name: str,
    seek: int | None,
) -> None:
    """What is stored ends after the log, as after a broker lost its end, wherever the ledger is."""
    if seek is not None:
        resolve(DecisionKind.SEEK, 0, offset=seek)
    cut_to(connection, idle_trigger, name, ahead=4)
    idle_trigger.stalled_batch()
    number = resolve(DecisionKind.SKIP_LOST).numbers[0]
    topics.produce(name, TEN)
    idle_trigger.until_idle()
    before = kept(connection, name)
    assert before == {
        stream(idle_trigger): list(range(14)),
        stream(idle_trigger, suffix=f"~{number}"): list(range(10, 20)),
    }
    first = batches.summaries(connection, name)[-1].id
    (replay,) = idle_trigger.attempt(first).attempts
    assert replay.read_from == replay.range.end == 10
    assert kept(connection, name) == before
    forget(connection, name, range(10))
    with pytest.raises(DataLostError, match="10 of the 10 messages"):
        idle_trigger.attempt(first)
    assert kept(connection, name) == {
        stream(idle_trigger): list(range(10, 14)),
        stream(idle_trigger, suffix=f"~{number}"): list(range(10, 20)),
    }


def cut_to(connection: Connection, trigger: InProcessTrigger, name: str, *, ahead: int) -> None:
    """Let the database look as if `ahead` messages after the log's end had been ingested before the log was cut."""
    stored_end = row(connection, found(connection, name)).stored_end
    connection.execute(
        """
        INSERT INTO workorders.work_orders (id, position, trigger_id, workflow_id, stream_id, state)
        SELECT gen_random_uuid(), position, ledger.trigger_id, triggers.workflow_id, ledger.stream_id, 'pending'
        FROM workorders.kafka_ledger AS ledger
        JOIN workorders.triggers ON triggers.id = ledger.trigger_id,
            generate_series(%(from)s::bigint, %(to)s::bigint - 1) AS position
        WHERE triggers.name = %(name)s
        """,
        {"from": stored_end, "to": stored_end + ahead, "name": name},
    )
    connection.execute(
        "INSERT INTO workorders.dataclips (id, body, request) SELECT id, '{}', '{}' FROM workorders.work_orders "
        "WHERE trigger_id = %s AND position >= %s",
        (found_id(connection, name), stored_end),
    )
    connection.execute(
        "UPDATE workorders.kafka_ledger SET stored_end = stored_end + %(ahead)s, "
        "next_offset = next_offset + CASE WHEN next_offset = stored_end THEN %(ahead)s ELSE 0 END "
        "WHERE trigger_id = %(id)s",
        {"ahead": ahead, "id": found_id(connection, name)},
    )
    connection.commit()


def found_id(connection: Connection, name: str) -> int:
    return find_trigger(connection, name).id


def forget(connection: Connection, name: str, offsets: Iterable[int]) -> None:
    """Delete work orders without the ledger."""
    remove(connection, found(connection, name), offsets)
    connection.commit()


def test_seek_back_reads_again_restores_what_is_missing_and_duplicates_nothing(
    connection: Connection, topics: Topics, idle_trigger: InProcessTrigger, resolve: Resolve, name: str
) -> None:
    forget(connection, name, [2, 7])
    resolve(DecisionKind.SEEK, 0, offset=5)
    topics.produce(name, TEN)
    (prepared,) = idle_trigger.until_idle()
    assert [str(attempt.range) for attempt in prepared.attempts] == [f"{name} 0 [5, 20)"]
    assert kept(connection, name) == {stream(idle_trigger): [number for number in range(20) if number != 2]}
    (range_,) = batches.load(connection, prepared.attempts[0].batch_id).ranges
    assert (range_.created, range_.rejected, range_.existing, range_.messages) == (11, 0, 4, 15)


def test_the_preview_of_a_seek_back_names_what_retention_deleted(
    connection: Connection, stack: LocalStack, cluster: KafkaAdmin, topics: Topics, name: str
) -> None:
    topics.create(name)
    trigger = InProcessTrigger(stack, name, workflow=name)
    topics.produce(name, TEN)
    trigger.until_idle()
    keeping(connection, name, delete_after="10d")
    (decision,) = considered(stack, cluster, DecisionRequest(DecisionKind.SEEK, name, name, (0,), offset=5))
    assert str(decision).endswith("also those whose work orders retention deleted, which it does after 10 days.")


def test_a_replay_of_a_range_that_was_read_again_misses_nothing_that_was_there_before(
    connection: Connection, topics: Topics, idle_trigger: InProcessTrigger, resolve: Resolve, name: str
) -> None:
    resolve(DecisionKind.SEEK, 0, offset=0)
    (prepared,) = idle_trigger.until_idle()
    forget(connection, name, range(10))
    topics.delete_before(name, 10)
    with pytest.raises(DataLostError, match="10 of the 10 messages"):
        idle_trigger.attempt(prepared.attempts[0].batch_id)


def test_seek_forward_skips_and_records_what(
    connection: Connection, topics: Topics, idle_trigger: InProcessTrigger, resolve: Resolve, name: str
) -> None:
    topics.produce(name, TEN)
    resolve(DecisionKind.SEEK, 0, offset=14)
    idle_trigger.until_idle()
    assert kept(connection, name) == {stream(idle_trigger): [*range(10), *range(14, 20)]}
    assert (last(connection, name).lost_start, last(connection, name).lost_end) == (10, 14)


def test_the_group_is_never_ahead_of_a_ledger_that_went_back(
    connection: Connection,
    cluster: KafkaAdmin,
    topics: Topics,
    idle_trigger: InProcessTrigger,
    *,
    resolve: Resolve,
    name: str,
) -> None:
    (partition,) = run(cluster.partitions([name])).require()
    group = idle_trigger.definition.consumer_group
    commit(cluster, group, {partition: 10})
    assert resolve(DecisionKind.SEEK, 0, offset=3).warnings == []
    assert run(cluster.committed(group, [partition])).require() == {partition: 3}
    resolve(DecisionKind.SEEK, 0, offset=8)
    assert run(cluster.committed(group, [partition])).require() == {partition: 8}


# --- what a decision may not disturb ----------------------------------------------------------------------------------


def test_looking_changes_nothing(
    connection: Connection, stack: LocalStack, cluster: KafkaAdmin, stalled: int, name: str
) -> None:
    before = everything(connection, found(connection, name))
    (decision,) = considered(stack, cluster, DecisionRequest(DecisionKind.SKIP_LOST, name, name))
    assert str(decision) == (
        f"{name}: {name} 0: skip-lost: the ledger goes from 10 to 15; offsets [10, 15) (5) get no work order "
        f"because retention deleted them before they were read; range [10, 20) of batch {stalled} is superseded."
    )
    assert everything(connection, found(connection, name)) == before


def test_a_superseded_range_is_neither_finished_nor_unfinished(
    connection: Connection, idle_trigger: InProcessTrigger, stalled: int, resolve: Resolve, name: str
) -> None:
    number = resolve(DecisionKind.SKIP_LOST).numbers[0]
    batch = batches.load(connection, stalled)
    (range_,) = batch.ranges
    assert (range_.finished, range_.unfinished, range_.superseded_by, range_.last_error) == (False, False, number, None)
    assert batch.supersessions == (
        f"{name} 0 [10, 20) was superseded by decision {number} and is not ingested; "
        f"`workorders decisions list` shows who decided and why.",
    )
    assert batches.list_unfinished(connection, name) == []
    assert batches.summaries(connection, name)[0].finished_at is not None
    prepared = idle_trigger.prepare(stalled)
    assert (prepared.attempts, dict(prepared.unreadable)) == ((), {})
    assert ledger.positions_of_batch(connection, stalled) == {}
    with pytest.raises(FencedError), connection.transaction():
        finish(connection, stalled, range_.range)


def test_a_partition_that_is_about_to_be_committed_is_left_alone(
    connection: Connection, stalled: int, resolve: Resolve, name: str
) -> None:
    with connection.transaction():
        ledger.lock(connection, find_trigger(connection, name), Partition(name, 0, "any"))
        with pytest.raises(DecisionRefusedError, match="is being written; nothing was changed"):
            resolve(DecisionKind.SKIP_LOST)


def test_a_decision_waits_for_no_attempt_that_runs_and_fences_it(
    connection: Connection, topics: Topics, idle_trigger: InProcessTrigger, resolve: Resolve, name: str
) -> None:
    topics.produce(name, TEN)
    batch_id = idle_trigger.batch()
    (attempt,) = idle_trigger.prepare(batch_id).attempts
    resolve(DecisionKind.SEEK, 0, offset=10)
    before = everything(connection, found(connection, name))
    with pytest.raises(FencedError, match="was fenced by a newer one"):
        idle_trigger.ingest(attempt)
    assert everything(connection, found(connection, name)) == before
    decided = ledger.lock(connection, find_trigger(connection, name), attempt.range.partition).epoch
    assert ledger.take_epoch(connection, batch_id) > decided > attempt.epoch
    connection.commit()
    idle_trigger.until_idle()
    assert kept(connection, name) == {stream(idle_trigger): list(range(20))}


def test_what_has_changed_since_it_was_shown_is_not_done(
    connection: Connection, stack: LocalStack, cluster: KafkaAdmin, stalled: int, *, resolve: Resolve, name: str
) -> None:
    shown = considered(stack, cluster, DecisionRequest(DecisionKind.SKIP_LOST, name, name))
    resolve(DecisionKind.SKIP_LOST)
    before = everything(connection, found(connection, name))
    with (
        connect(stack.database_url) as own,
        pytest.raises(DecisionRefusedError, match="has changed since the preview; nothing was changed"),
    ):
        apply(own, cluster, shown, Attribution("ada", "again"), group="g")
    assert everything(connection, found(connection, name)) == before
    assert len(list_decisions(connection, name)) == 1


@pytest.fixture
def three_hours(stack: LocalStack, topics: Topics, name: str) -> datetime:
    """A trigger that has ingested three messages, of three, two and one hours before this time."""
    now = datetime.now(UTC)
    topics.create(name)
    for hours in (3, 2, 1):
        topics.produce(name, [b"{}"], timestamp_ms=int((now - timedelta(hours=hours)).timestamp() * 1000))
    InProcessTrigger(stack, name).until_idle()
    return now


@pytest.mark.parametrize(("hours", "offset"), [(9, 0), (3, 0), (2.5, 1), (2, 1), (0.5, 3)])
def test_a_time_is_its_first_message_or_the_end(
    stack: LocalStack, cluster: KafkaAdmin, three_hours: datetime, name: str, *, hours: float, offset: int
) -> None:
    time = three_hours - timedelta(hours=hours)
    (decision,) = considered(stack, cluster, DecisionRequest(DecisionKind.SEEK, name, name, (0,), time=time))
    assert (decision.state.next_offset, decision.to_offset) == (3, offset)


@pytest.mark.parametrize(("kind", "offset"), [(DecisionKind.SKIP_LOST, None), (DecisionKind.SEEK, 0)])
def test_a_time_is_for_seek_alone_and_instead_of_an_offset(
    stack: LocalStack, cluster: KafkaAdmin, three_hours: datetime, name: str, *, kind: DecisionKind, offset: int | None
) -> None:
    request = DecisionRequest(kind, name, name, (0,), offset, three_hours)
    with pytest.raises(DecisionRefusedError, match="a time is only for seek, and only without an offset; nothing was"):
        considered(stack, cluster, request)


@pytest.mark.parametrize(("actor", "reason"), [("", "a reason"), ("ada", " ")])
def test_a_decision_without_actor_or_reason_is_refused(
    stack: LocalStack, cluster: KafkaAdmin, stalled: int, name: str, *, actor: str, reason: str
) -> None:
    shown = considered(stack, cluster, DecisionRequest(DecisionKind.SKIP_LOST, name, name))
    with connect(stack.database_url) as own, pytest.raises(DecisionRefusedError, match="needs an actor and a reason"):
        apply(own, cluster, shown, Attribution(actor, reason), group="g")


class Cutting(KafkaAdmin):
    """A cluster that, when the group's offsets are written, cuts our connection to Postgres."""

    def __init__(self, stack: LocalStack) -> None:
        super().__init__(client_settings(stack.kafka_settings))
        self._url = stack.database_url
        self.pid = 0

    async def commit(self, group: str, positions: Mapping[Partition, int]) -> None:
        if positions:
            with connect(self._url, autocommit=True) as own:
                own.execute("SELECT pg_terminate_backend(%s, 10000)", (self.pid,))


@pytest.mark.parametrize(("offset", "made"), [(3, False), (15, True)], ids=["before the commit", "after it"])
def test_a_lost_connection_is_not_reported_as_nothing_changed(
    connection: Connection,
    stack: LocalStack,
    topics: Topics,
    idle_trigger: InProcessTrigger,
    *,
    name: str,
    offset: int,
    made: bool,
) -> None:
    topics.produce(name, TEN)
    cluster = Cutting(stack)
    with connect(stack.database_url) as own:
        cluster.pid = own.info.backend_pid
        shown = preview(own, cluster, DecisionRequest(DecisionKind.SEEK, name, name, (0,), offset))
        if made:
            _, (warning,) = apply(own, cluster, shown, Attribution("ada", "a test"), group="g")
            assert warning.startswith(
                "The decision was made; the consumer group's offsets follow with the next batch ("
            )
        else:
            uncertain = "so the decision was made or was not; see `workorders decisions list`"
            with pytest.raises(DecisionUncertainError, match=uncertain):
                apply(own, cluster, shown, Attribution("ada", "a test"), group="g")
    assert len(list_decisions(connection, name)) == made
    assert next_offsets(connection, name) == {0: offset if made else 10}


def test_a_planner_that_looked_before_the_decision_plans_from_where_it_led(
    connection: Connection,
    stack: LocalStack,
    topics: Topics,
    idle_trigger: InProcessTrigger,
    *,
    resolve: Resolve,
    name: str,
) -> None:
    topics.produce(name, TEN)

    class Interrupted(KafkaAdmin):
        async def offsets(self, partitions: Sequence[Partition]) -> Answers[list[PartitionOffsets]]:
            answer = await super().offsets(partitions)
            with ThreadPoolExecutor(1) as pool:
                pool.submit(resolve, DecisionKind.SEEK, 0, offset=15).result(60)
            return answer

    with connect(stack.database_url) as own:
        planned = asyncio.run(
            plan_batch(own, Interrupted(client_settings(stack.kafka_settings)), idle_trigger.definition)
        )
    assert [(range_.start, range_.end) for range_ in planned.ranges] == [(15, 20)]
    assert planned.batch_id is not None
    idle_trigger.attempt(planned.batch_id)
    assert kept(connection, name) == {stream(idle_trigger): [*range(10), *range(15, 20)]}


def test_a_decision_and_a_planner_take_turns(
    connection: Connection,
    stack: LocalStack,
    topics: Topics,
    idle_trigger: InProcessTrigger,
    resolve: Resolve,
    *,
    name: str,
) -> None:
    """The planner is in its transaction and has read the ledger; its batch must not be planned past the decision."""
    topics.produce(name, TEN)
    trigger = found(connection, name)
    ledger.lock_trigger(connection, trigger)
    (position,) = ledger.positions(connection, name).values()
    with ThreadPoolExecutor(1) as pool, connect(stack.database_url, autocommit=True) as watching:
        decided = pool.submit(resolve, DecisionKind.SEEK, 0, offset=15)
        eventually(lambda: waits_for_a_lock(watching), seconds=30, what="a decision that waits for the planner")
        batches.create(connection, trigger, [OffsetRange(position.partition, position.next_offset, 20)])
        connection.commit()
        with pytest.raises(DecisionRefusedError, match="has changed since the preview"):
            decided.result(60)
    assert next_offsets(connection, name) == {0: 10}


def test_only_partitions_that_call_for_it_are_decided_when_none_is_named(
    connection: Connection, stack: LocalStack, topics: Topics, resolve: Resolve, name: str
) -> None:
    topics.create(name, partitions=2)
    trigger = InProcessTrigger(stack, name)
    trigger.until_idle()
    for number in range(2):
        topics.produce(name, TEN, partition=number)
    topics.delete_before(name, 5, partition=1)
    with pytest.raises(DecisionRefusedError, match=r"no partition of .* needs the decision accept-topic"):
        resolve(DecisionKind.ACCEPT_TOPIC)
    (only,) = resolve(DecisionKind.SKIP_LOST).decisions
    assert only.state.partition.partition == 1
    trigger.until_idle()
    assert kept(connection, name) == {stream(trigger, 0): list(range(10)), stream(trigger, 1): list(range(5, 10))}


def test_what_the_ledger_does_not_know_is_refused(idle_trigger: InProcessTrigger, resolve: Resolve, name: str) -> None:
    with pytest.raises(DecisionRefusedError, match="the ledger has no partition 7 of"):
        resolve(DecisionKind.SEEK, 0, 7, offset=0)
    with pytest.raises(DecisionRefusedError, match="the ledger has no topic other"):
        resolve(DecisionKind.SKIP_LOST, topic="other")


def test_a_batch_that_is_too_large_is_planned_again_and_smaller(
    connection: Connection,
    stack: LocalStack,
    topics: Topics,
    idle_trigger: InProcessTrigger,
    resolve: Resolve,
    *,
    name: str,
) -> None:
    """A batch never changes; where the first guess of a message's size was wrong, an operator has it put aside."""
    topics.produce(name, TEN)
    assert [range_.end for range_ in idle_trigger.plan().ranges] == [20]
    resolve(DecisionKind.SEEK, 0, offset=10)
    smaller = InProcessTrigger(stack, name, max_messages=3)
    planned = smaller.plan()
    assert [(range_.start, range_.end) for range_ in planned.ranges] == [(10, 13)]
    assert planned.batch_id is not None
    smaller.attempt(planned.batch_id)
    smaller.until_idle()
    assert kept(connection, name) == {stream(smaller): list(range(20))}


def test_a_topic_that_is_gone_can_be_given_up(
    connection: Connection, topics: Topics, idle_trigger: InProcessTrigger, resolve: Resolve, name: str
) -> None:
    topics.produce(name, TEN)
    batch_id = idle_trigger.batch()
    topics.delete(name)
    assert idle_trigger.attempt(batch_id).unreadable
    replay = idle_trigger.attempt(batches.summaries(connection, name)[-1].id)
    assert replay.not_read == (
        f"{name} 0 [0, 10) is finished, and Kafka does not have its messages any more, so nothing of it is read: its "
        f"work orders are counted.",
    )
    resolve(DecisionKind.SKIP_LOST)
    assert (last(connection, name).lost_start, last(connection, name).lost_end) == (10, 20)
    assert batches.summaries(connection, name)[0].finished_at is not None
