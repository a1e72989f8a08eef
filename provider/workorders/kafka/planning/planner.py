"""Plans the next batch of a trigger: asks the cluster, chooses ranges, and records them in one transaction.

Before a topic is read for the first time, the trigger's starting policy is resolved to offsets, which are recorded too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workorders.core import triggers, workflows
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ledger import batches
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.ledger.batches import Batch, BatchRange
from workorders.kafka.partitions import OffsetRange, Partition, PartitionOffsets, Position
from workorders.kafka.planning.range_planning import (
    BatchLimits,
    allowed_by_rate,
    contradicting,
    drop_stale_ends,
    plan_ranges,
)
from workorders.kafka.planning.virtual_partitions import cut, require_no_order


@dataclass(frozen=True, slots=True)
class Plan:
    """Result of a planner."""

    trigger: Trigger
    batch_id: int | None
    """The new batch; None if nothing was planned."""
    ranges: tuple[OffsetRange, ...]

    @property
    def label(self) -> str:
        """Return the ranges as text; see `Batch.label`."""
        return ", ".join(map(str, self.ranges))


@dataclass(frozen=True, slots=True)
class Growth:
    """Ranges that were added to a batch."""

    ranges: tuple[BatchRange, ...]
    """None if there was nothing to add."""
    epoch: int
    """Their epoch, which may be higher than that of the batch."""


async def plan_batch(connection: Connection, cluster: KafkaAdmin, definition: KafkaTriggerDefinition) -> Plan:
    """Record the next batch of a trigger, and the starting offsets of new partitions.

    Kafka is asked before the transaction begins, which must not wait for a network. Messages that arrive after that
    wait for the next batch. The second of two concurrent planners waits for the first and finds the partitions busy.
    While a batch of the trigger grows, a new one has only partitions whose log and ledger do not match.

    Args:
        connection: a connection without a transaction.
        cluster: the trigger's cluster.
        definition: the trigger.

    Raises:
        ConfigurationError: the trigger has virtual partitions, and its workflow needs order.
        UnknownTopicError: a topic of the trigger does not exist.
        KafkaUnavailableError: the cluster did not answer.
        KafkaRefusedError: the cluster refused the client.
        psycopg.Error: the database failed; nothing was recorded.
    """
    known = ledger.positions(connection, definition.name)
    connection.commit()
    partitions = await cluster.partitions(definition.topics)
    logs = await cluster.offsets(partitions)
    starts = await first_offsets(cluster, definition, logs, known)
    with connection.transaction():
        trigger = register(connection, definition)
        ledger.lock_trigger(connection, trigger)
        for partition in ledger.missing_from_ledger(starts, ledger.positions(connection, trigger.name)):
            ledger.insert(connection, trigger, partition, starts[partition])
        now = ledger.positions(connection, trigger.name)
        last = batches.last_plan(connection, trigger.name)
        current = drop_stale_ends(logs, known, now)
        failing = contradicting(current, now)
        ranges = plan_ranges(failing if last.is_open else current, now, _limits(definition, last.seconds_ago))
        parts = [part for range_ in ranges for part in cut(range_, definition.virtual_partitions)]
        # The attempt at a batch with a range that fails does not grow, so nothing is left to it.
        grows = definition.linger > 0 and not failing
        lease = batches.LEASE_SECONDS if grows else None
        batch_id = batches.create(connection, trigger, ranges, parts, lease_seconds=lease) if ranges else None
    return Plan(trigger, batch_id, tuple(ranges))


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
    logs = await cluster.offsets([part for part in partitions if part in known and not known[part].busy])
    with connection.transaction():
        ledger.lock_trigger(connection, batch.trigger)
        if not (batches.renew_lease(connection, batch.id, epoch) and batches.is_unchanged(connection, batch)):
            return None
        now = ledger.positions(connection, batch.trigger.name)
        failing = contradicting(logs, now)
        last = batches.last_plan(connection, batch.trigger.name)
        readable = [log for log in logs if log not in failing and log.log_start <= now[log.partition].next_offset]
        ranges = plan_ranges(readable, now, _limits(definition, last.seconds_ago))
        if not ranges:
            return Growth((), epoch)
        parts = [part for range_ in ranges for part in cut(range_, definition.virtual_partitions)]
        batches.add_ranges(connection, batch.id, batch.trigger, ranges, parts)
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


def _limits(definition: KafkaTriggerDefinition, seconds_since_last: float | None) -> BatchLimits:
    allowed = allowed_by_rate(definition.rate_limit_per_second, seconds_since_last, definition.max_messages)
    return BatchLimits(definition.max_messages, definition.max_bytes).allow(allowed)


async def first_offsets(
    cluster: KafkaAdmin,
    definition: KafkaTriggerDefinition,
    logs: Sequence[PartitionOffsets],
    known: Mapping[Partition, Position],
) -> dict[Partition, int]:
    """Return the first offset to read of each partition without a row in the ledger.

    A new partition of a known topic starts at its first offset, regardless of the policy, because its messages arrived
    after the trigger started. A topic that is new to the trigger starts by policy.
    """
    new = ledger.missing_from_ledger([log.partition for log in logs], known)
    known_topics = {partition.topic for partition in known}
    log_of = {log.partition: log for log in logs}
    starts = {part: log_of[part].log_start for part in new if part.topic in known_topics}
    by_policy = [log_of[part] for part in new if part.topic not in known_topics]
    return starts | await _by_policy(cluster, definition, by_policy)


async def _by_policy(
    cluster: KafkaAdmin, definition: KafkaTriggerDefinition, logs: Sequence[PartitionOffsets]
) -> dict[Partition, int]:
    starting = definition.starting_offsets
    partitions = [log.partition for log in logs]
    if starting.policy == "latest":
        return {log.partition: log.last_stable for log in logs}
    if starting.timestamp_ms is not None:
        found = await cluster.offsets_at(partitions, starting.timestamp_ms)
        return {log.partition: log.last_stable if (at := found[log.partition]) is None else at for log in logs}
    if starting.policy == "group":
        committed = await cluster.committed(definition.group, partitions)
        return {log.partition: log.log_start if (at := committed[log.partition]) is None else at for log in logs}
    return {log.partition: log.log_start for log in logs}
