"""Plans the next batch of a trigger: asks the cluster, chooses ranges, and records them in one transaction.

Before a topic is read for the first time, the trigger's starting policy is resolved to offsets, which are recorded too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from workorders.core import triggers, workflows
from workorders.core.exceptions import WorkOrdersError
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.client.requests import Answers
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import AnotherClusterError
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
    BatchLimits,
    allowed_by_rate,
    contradicting,
    drop_stale_ends,
    plan_ranges,
)
from workorders.kafka.planning.virtual_partitions import cut, require_no_order


@dataclass(frozen=True, slots=True)
class KafkaState:
    """What Kafka has for a trigger, asked before the transaction that plans."""

    known: Mapping[Partition, Position]
    """The ledger before Kafka was asked."""
    cluster_id: str
    logs: Sequence[PartitionOffsets]
    starts: Mapping[Partition, int]
    """First offset to read of each partition without a row in the ledger."""
    errors: Mapping[Place, WorkOrdersError]
    """Of the topics and partitions that Kafka could not answer for."""


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

    @property
    def label(self) -> str:
        """Return the ranges as text; see `Batch.label`."""
        return ", ".join(map(str, self.ranges))


@dataclass(frozen=True, slots=True)
class Growth:
    """Ranges that were added to a batch."""

    ranges: tuple[BatchRange, ...]
    """Empty if there was nothing to add."""
    epoch: int
    """Their epoch, which may be higher than that of the batch."""


async def plan_batch(connection: Connection, cluster: KafkaAdmin, definition: KafkaTriggerDefinition) -> Plan:
    """Record the next batch of a trigger, the starting offsets of new partitions, and stalls of free partitions.

    Kafka is asked before the transaction begins, which must not wait for a network. Messages that arrive after that
    wait for the next batch. The second of two concurrent planners waits for the first and finds the partitions busy.
    While a batch of the trigger grows, a new one has only partitions whose log and ledger do not match.

    Args:
        connection: a connection without a transaction.
        cluster: the trigger's cluster.
        definition: the trigger.

    Raises:
        ConfigurationError: the trigger has virtual partitions, and its workflow needs order.
        KafkaUnavailableError: the cluster did not answer.
        KafkaRefusedError: the cluster refused the client.
        UnknownTopicError: a new trigger has no topic that exists.
        AnotherClusterError: the connection leads to another cluster than all partitions of the ledger.
        psycopg.Error: the database failed; nothing was recorded.
    """
    known = ledger.positions(connection, definition.name)
    connection.commit()
    state = await ask(cluster, definition, known)
    with connection.transaction():
        trigger = register(connection, definition)
        ledger.lock_trigger(connection, trigger)
        stalled = ledger.record_unanswered(connection, trigger, _stalls(state))
        for partition in ledger.missing_from_ledger(state.starts, ledger.positions(connection, trigger.name)):
            ledger.insert(connection, trigger, partition, state.starts[partition], state.cluster_id)
        now = ledger.positions(connection, trigger.name)
        last = batches.last_plan(connection, trigger.name)
        current = drop_stale_ends(state.logs, known, now)
        failing = contradicting(current, now)
        chosen = _choose(definition, failing if last.is_open else current, now, last)
        # The attempt at a batch with a range that fails does not grow, so nothing is left to it.
        grows = definition.linger > 0 and not failing
        lease = batches.LEASE_SECONDS if grows else None
        batch_id = batches.create(connection, trigger, *chosen, lease_seconds=lease) if chosen.ranges else None
    return Plan(trigger, batch_id, tuple(chosen.ranges), state.errors, stalled)


async def ask(
    cluster: KafkaAdmin, definition: KafkaTriggerDefinition, known: Mapping[Partition, Position]
) -> KafkaState:
    """Ask Kafka for the partitions of a trigger, their ends, and where new ones begin.

    Raises:
        KafkaUnavailableError: the cluster did not answer.
        KafkaRefusedError: the cluster refused the client.
        UnknownTopicError: a new trigger has no topic that exists.
        AnotherClusterError: the connection leads to another cluster than all partitions of the ledger.
    """
    cluster_id = await cluster.cluster_id()
    _require_own_cluster(definition, cluster_id, known)
    partitions = await cluster.partitions(definition.topics)
    if not known and not partitions.found:
        partitions.require()
    logs = await cluster.offsets(partitions.found)
    starts = await first_offsets(cluster, definition, logs.found, known)
    return KafkaState(
        known, cluster_id, logs.found, starts.found, {**partitions.errors, **logs.errors, **starts.errors}
    )


def _require_own_cluster(
    definition: KafkaTriggerDefinition, cluster_id: str, known: Mapping[Partition, Position]
) -> None:
    """Refuse another cluster before its topics are taken for new or re-created ones, until a decision accepts one."""
    expected = {position.cluster_id for position in known.values()}
    if expected and not expected & {None, cluster_id}:
        raise AnotherClusterError.of(definition.name, ", ".join(sorted(filter(None, expected))), cluster_id)


def _stalls(state: KafkaState) -> dict[tuple[str, int], str]:
    """Return the error of each partition of the ledger that Kafka could not answer for."""
    return {
        partition.topic_partition: (
            f"{partition.topic} {partition.partition}: nothing was planned there. {error} It is asked again."
        )
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
) -> Growth | None:
    """Add ranges of the trigger's free partitions to a batch whose attempt runs, before any of them is read.

    New partitions, and those whose log does not match the ledger, are left to the listener.

    Args:
        connection: a connection in autocommit mode.
        cluster: the trigger's cluster.
        batch: the batch as it was when the attempt began; its other ranges are finished now.
        epoch: of the attempt.
        definition: that of the batch.
        partitions: those of the trigger's topics.

    Returns:
        What was added; None if the batch must not grow any more: a newer attempt or an older batch took over, the lease
        was closed, or a definition or a log has changed.

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
        chosen = _choose(definition, readable, now, last)
        if not chosen.ranges:
            return Growth((), epoch)
        batches.add_ranges(connection, batch.id, batch.trigger, *chosen)
        extended = ledger.extend_epoch(connection, batch.id, epoch)
        return Growth(batches.load_ranges(connection, batch.id, unfinished=True), extended)


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


class _Chosen(NamedTuple):
    """What a batch gets."""

    ranges: Sequence[OffsetRange]
    virtual_partitions: Sequence[VirtualPartition]
    """All virtual partitions of the ranges that are cut."""


def _choose(
    definition: KafkaTriggerDefinition,
    logs: Sequence[PartitionOffsets],
    positions: Mapping[Partition, Position],
    last: LastPlan,
) -> _Chosen:
    """Return ranges of the free partitions within the trigger's limits, and what its rate allows now."""
    allowed = allowed_by_rate(definition.rate_limit_per_second, last.seconds_ago, definition.max_messages)
    limits = BatchLimits(definition.max_messages, definition.max_bytes).allow(allowed)
    ranges = plan_ranges(logs, positions, limits)
    return _Chosen(ranges, [small for range_ in ranges for small in cut(range_, definition.virtual_partitions)])


async def first_offsets(
    cluster: KafkaAdmin,
    definition: KafkaTriggerDefinition,
    logs: Sequence[PartitionOffsets],
    known: Mapping[Partition, Position],
) -> Answers[dict[Partition, int]]:
    """Return the first offset to read of each partition without a row in the ledger.

    A new partition of a known topic starts at its first offset, regardless of the policy, because its messages arrived
    after the trigger started. A topic that is new to the trigger starts by policy.
    """
    new = set(ledger.missing_from_ledger([log.partition for log in logs], known))
    known_topics = {partition.topic for partition in known}
    unread = [log for log in logs if log.partition in new]
    by_policy = await _by_policy(
        cluster, definition, [log for log in unread if log.partition.topic not in known_topics]
    )
    starts = {log.partition: log.log_start for log in unread if log.partition.topic in known_topics}
    return Answers(starts | by_policy.found, by_policy.errors)


async def _by_policy(
    cluster: KafkaAdmin, definition: KafkaTriggerDefinition, logs: Sequence[PartitionOffsets]
) -> Answers[dict[Partition, int]]:
    starting = definition.starting_offsets
    firsts = {log.partition: log.log_start for log in logs}
    lasts = {log.partition: log.last_stable for log in logs}
    if starting.policy == "latest":
        return Answers(lasts, {})
    if starting.timestamp_ms is not None:
        return _with_default(await cluster.offsets_at(firsts, starting.timestamp_ms), lasts)
    if starting.policy == "group":
        return _with_default(await cluster.committed(definition.group, firsts), firsts)
    return Answers(firsts, {})


def _with_default(
    answers: Answers[dict[Partition, int | None]], default: Mapping[Partition, int]
) -> Answers[dict[Partition, int]]:
    found = {partition: default[partition] if offset is None else offset for partition, offset in answers.found.items()}
    return Answers(found, answers.errors)
