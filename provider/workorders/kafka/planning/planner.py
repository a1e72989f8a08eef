"""Plans the next batch of a trigger: asks the cluster, chooses ranges, and records them in one transaction.

Before that it resolves where the trigger starts to read, which is recorded before its listener waits for messages.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workorders.core import triggers, workflows
from workorders.core.exceptions import WorkOrdersError
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.client.requests import Answers
from workorders.kafka.definition.fields import is_subscribed
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import AnotherClusterError, UnknownTopicError
from workorders.kafka.ledger import batches
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.ledger.batches import Batch, BatchRange, LastPlan
from workorders.kafka.partitions import (
    OffsetRange,
    Partition,
    PartitionOffsets,
    Place,
    Position,
    VirtualPartition,
    error_at,
)
from workorders.kafka.planning.range_planning import (
    allowed_by_rate,
    contradicting,
    cut,
    drop_stale_ends,
    plan_ranges,
    require_no_order,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Result of a planner."""

    trigger: Trigger
    batch_id: int | None
    """The new batch; None if nothing was planned."""
    ranges: tuple[OffsetRange, ...]
    errors: Mapping[Place, WorkOrdersError]
    """Of the topics and partitions that Kafka could not answer for; nothing was planned there."""
    stalled: tuple[str, ...]
    """Errors of the free partitions whose stall was recorded now."""
    recorded: Sequence[str] = ()
    """In words, where reading begins in what is new."""

    @property
    def label(self) -> str:
        """Return the ranges as text; see `Batch.label`."""
        return ", ".join(map(str, self.ranges))


@dataclass(frozen=True, slots=True)
class Polled:
    """What Kafka has for a trigger, asked before a transaction that records it."""

    known: Mapping[Partition, Position]
    """The ledger before Kafka was asked."""
    subscriptions: frozenset[str]
    """The names and patterns that were polled before."""
    cluster_id: str
    logs: Sequence[PartitionOffsets]
    starts: Mapping[Partition, int]
    """First offset to read of each partition without a row in the ledger."""
    errors: Mapping[Place, WorkOrdersError]
    """Of the topics and partitions that Kafka could not answer for."""
    answered: tuple[str, ...]
    """The names and patterns for which Kafka told all that exists."""


async def plan_batch(connection: Connection, cluster: KafkaAdmin, definition: KafkaTriggerDefinition) -> Plan:
    """Record the next batch of a trigger, the starting offsets of new partitions, and stalls of free partitions.

    Kafka is asked before the transaction begins, which must not wait for a network. Messages that arrive after that
    wait for the next batch. The second of two concurrent planners waits for the first and finds the partitions busy.
    While a batch of the trigger grows, a new one has only partitions whose log and ledger do not match.

    Raises:
        ConfigurationError: the trigger has virtual partitions, and its workflow needs order.
        KafkaUnavailableError: the cluster did not answer.
        KafkaRefusedError: the cluster refused the client.
        TopicForbiddenError: a new trigger may describe none of its topics.
        AnotherClusterError: the connection leads to another cluster than all partitions of the ledger.
        psycopg.Error: the database failed; nothing was recorded.
    """
    name = definition.name
    known, subscriptions = ledger.positions(connection, name), ledger.subscriptions(connection, name)
    connection.commit()
    state = await poll(cluster, definition, known, subscriptions)
    with connection.transaction():
        trigger = register(connection, definition)
        ledger.lock_trigger(connection, trigger)
        stalled = ledger.record_unanswered(connection, trigger, _stalls(state))
        recorded = record_starts(connection, trigger, state)
        now = ledger.positions(connection, trigger.name)
        last = batches.last_plan(connection, trigger.name)
        current = drop_stale_ends(state.logs, known, now)
        failing = contradicting(current, now)
        ranges, pieces = _choose(definition, failing if last.is_open else current, now, last)
        # The attempt at a batch with a range that fails does not grow, so nothing is left to it.
        grows = definition.linger > 0 and not failing
        lease = batches.LEASE_SECONDS if grows else None
        batch_id = batches.create(connection, trigger, ranges, pieces, lease_seconds=lease) if ranges else None
    return Plan(trigger, batch_id, tuple(ranges), state.errors, stalled, recorded)


def _stalls(state: Polled) -> dict[tuple[str, int], str]:
    """Return the error of each partition of the ledger that Kafka could not answer for."""
    return {
        partition.topic_partition: f"{partition}: nothing was planned there. {error} It is asked again."
        for partition in state.known
        if (error := error_at(state.errors, partition)) is not None
    }


async def grow_batch(
    connection: Connection,
    cluster: KafkaAdmin,
    batch: Batch,
    epoch: int,
    *,
    definition: KafkaTriggerDefinition,
    partitions: Iterable[Partition],
) -> tuple[Sequence[BatchRange], int] | None:
    """Add ranges of the trigger's free partitions to a batch whose attempt runs, before any of them is read.

    New partitions, and those whose log does not match the ledger, are left to the listener. The connection is in
    autocommit mode. The other ranges of the batch are finished.

    Returns:
        The ranges that were added, and their epoch, which may be higher than that of the batch. None if the batch must
        not grow any more: a newer attempt or an older batch took over, the lease was closed, or a definition or a log
        has changed.

    Raises:
        KafkaUnavailableError: the cluster did not answer.
        psycopg.Error: the database failed; nothing was recorded.
    """
    known = ledger.positions(connection, batch.trigger.name)
    free = [partition for partition in partitions if partition in known and not known[partition].busy]
    logs = (await cluster.offsets(free)).found
    with connection.transaction():
        ledger.lock_trigger(connection, batch.trigger)
        if not (batches.renew_lease(connection, batch.id, epoch) and batches.is_unchanged(connection, batch)):
            return None
        now = ledger.positions(connection, batch.trigger.name)
        failing = contradicting(logs, now)
        last = batches.last_plan(connection, batch.trigger.name)
        readable = [log for log in logs if log not in failing and log.log_start <= now[log.partition].next_offset]
        ranges, pieces = _choose(definition, readable, now, last)
        if not ranges:
            return (), epoch
        batches.add_ranges(connection, batch.id, batch.trigger, ranges, pieces)
        extended = ledger.extend_epoch(connection, batch.id, epoch)
        return batches.load_ranges(connection, batch.id, unfinished=True), extended


def register(connection: Connection, definition: KafkaTriggerDefinition) -> Trigger:
    """Record the current definition of a trigger, in the transaction of the connection, and return its row.

    Raises:
        ConfigurationError: the trigger has virtual partitions, and its workflow needs order; or a trigger of another
            type has the name.
    """
    trigger = triggers.register_definition(connection, definition)
    if definition.virtual_partitions > 1:
        require_no_order(definition, workflows.find(connection, trigger.workflow))
    return trigger


def _choose(
    definition: KafkaTriggerDefinition,
    logs: Sequence[PartitionOffsets],
    positions: Mapping[Partition, Position],
    last: LastPlan,
) -> tuple[Sequence[OffsetRange], Sequence[VirtualPartition]]:
    """Return ranges of the free partitions, within the trigger's limits and rate, and what they are cut into."""
    allowed = allowed_by_rate(definition.rate_limit_per_second, last.seconds_ago, definition.max_messages)
    ranges = plan_ranges(logs, positions, max_messages=allowed, max_bytes=definition.max_bytes)
    return ranges, [small for range_ in ranges for small in cut(range_, definition.virtual_partitions)]


async def poll(
    cluster: KafkaAdmin,
    definition: KafkaTriggerDefinition,
    known: Mapping[Partition, Position],
    subscriptions: frozenset[str],
) -> Polled:
    """Ask Kafka for a trigger's partitions, their ends, and where new ones begin; it raises what `plan_batch` does."""
    cluster_id = await cluster.cluster_id()
    expected = {position.cluster_id for position in known.values()}
    if expected and not expected & {None, cluster_id}:  # before its topics are taken for new or re-created ones
        raise AnotherClusterError.of(definition.name, ", ".join(sorted(filter(None, expected))), cluster_id)
    partitions = await cluster.partitions(definition.topics)
    for error in () if known or partitions.found else partitions.errors.values():
        if not isinstance(error, UnknownTopicError):
            raise error
    logs = await cluster.offsets(partitions.found)
    starts = await first_offsets(cluster, definition, logs.found, known, subscriptions)
    errors = {**partitions.errors, **logs.errors, **starts.errors}
    polled = answered(definition, errors)
    return Polled(known, subscriptions, cluster_id, logs.found, starts.found, errors, polled)


def answered(definition: KafkaTriggerDefinition, errors: Mapping[Place, WorkOrdersError]) -> tuple[str, ...]:
    """Return the trigger's names and patterns for which Kafka told all that exists."""
    unanswered = {topic for (topic, _), error in errors.items() if not isinstance(error, UnknownTopicError)}
    return tuple(name for name in definition.topics if not any(is_subscribed(name, topic) for topic in unanswered))


def record_starts(connection: Connection, trigger: Trigger, polled: Polled) -> list[str]:
    """Add the partitions that the ledger does not have, and what was polled; return it in words.

    Nothing is added if another poll has changed what the policy applies to since Kafka was asked: its offsets count.
    The trigger is locked.
    """
    if ledger.subscriptions(connection, trigger.name) != polled.subscriptions:
        return []
    recorded = []
    for partition in ledger.missing_from_ledger(polled.starts, ledger.positions(connection, trigger.name)):
        ledger.insert(connection, trigger, partition, polled.starts[partition], polled.cluster_id)
        recorded.append(f"{partition} is read from offset {polled.starts[partition]} on")
    ledger.insert_subscriptions(connection, trigger, polled.answered)
    missing = [topic for (topic, _), error in polled.errors.items() if isinstance(error, UnknownTopicError)]
    new = [topic for topic in missing if topic in set(polled.answered) - polled.subscriptions]
    return recorded + [f"{topic} does not exist yet and will be read from its first offset on" for topic in new]


async def first_offsets(
    cluster: KafkaAdmin,
    definition: KafkaTriggerDefinition,
    logs: Sequence[PartitionOffsets],
    known: Mapping[Partition, Position],
    subscriptions: frozenset[str],
) -> Answers[dict[Partition, int]]:
    """Return the first offset to read of each partition without a row in the ledger.

    What was created after the trigger had polled its name or pattern, or next to partitions that the ledger has, starts
    at its first offset, regardless of the policy: all its messages are newer. Anything else starts by policy.
    """
    new = set(ledger.missing_from_ledger([log.partition for log in logs], known))
    known_topics = {partition.topic for partition in known}

    def is_younger(topic: str) -> bool:
        return topic in known_topics or any(is_subscribed(name, topic) for name in subscriptions)

    unread = [log for log in logs if log.partition in new]
    by_policy = await _by_policy(cluster, definition, [log for log in unread if not is_younger(log.partition.topic)])
    starts = {log.partition: log.log_start for log in unread if is_younger(log.partition.topic)}
    return Answers(starts | by_policy.found, by_policy.errors)


async def _by_policy(
    cluster: KafkaAdmin, definition: KafkaTriggerDefinition, logs: Sequence[PartitionOffsets]
) -> Answers[dict[Partition, int]]:
    starting = definition.starting_offsets
    firsts = {log.partition: log.log_start for log in logs}
    lasts = {log.partition: log.last_stable for log in logs}
    if starting == "latest":
        return Answers(lasts, {})
    if isinstance(starting, int):
        return _with_default(await cluster.offsets_at(firsts, starting), lasts)
    if starting == "committed":
        return _with_default(await cluster.committed(definition.consumer_group, firsts), firsts)
    return Answers(firsts, {})


def _with_default(
    answers: Answers[dict[Partition, int | None]], default: Mapping[Partition, int]
) -> Answers[dict[Partition, int]]:
    found = {partition: default[partition] if offset is None else offset for partition, offset in answers.found.items()}
    return Answers(found, answers.errors)
