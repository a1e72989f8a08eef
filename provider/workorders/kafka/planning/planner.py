"""Plans the next batch of a trigger: asks the cluster, chooses ranges, and records them in one transaction.

Before a topic is read for the first time, the trigger's starting policy is resolved to offsets, which are recorded too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workorders.core import triggers, workflows
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ledger import batches
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.partitions import OffsetRange, Partition, PartitionOffsets, Position
from workorders.kafka.planning.range_planning import (
    BatchLimits,
    allowed_by_rate,
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


async def plan_batch(
    connection: Connection, cluster: KafkaAdmin, definition: KafkaTriggerDefinition, *, taken_by: int | None = None
) -> Plan:
    """Record the next batch of a trigger, and the starting offsets of new partitions.

    Kafka is asked before the transaction begins, which must not wait for a network. Messages that arrive after that
    wait for the next batch. The second of two concurrent planners waits for the first and finds the partitions busy.

    Args:
        connection: a connection without a transaction.
        cluster: the trigger's cluster.
        definition: the trigger.
        taken_by: the batch whose task takes the new one; None for the listener.

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
        ranges = _ranges(connection, trigger, definition, drop_stale_ends(logs, known, now), now)
        parts = [part for range_ in ranges for part in cut(range_, definition.virtual_partitions)]
        batch_id = batches.create(connection, trigger, ranges, parts, taken_by=taken_by) if ranges else None
    return Plan(trigger, batch_id, tuple(ranges))


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


def _ranges(
    connection: Connection,
    trigger: Trigger,
    definition: KafkaTriggerDefinition,
    logs: Sequence[PartitionOffsets],
    positions: Mapping[Partition, Position],
) -> list[OffsetRange]:
    limits = _limits(definition)
    allowed = allowed_by_rate(
        definition.rate_limit_per_second, batches.seconds_since_last(connection, trigger.name), limits.messages
    )
    if allowed < limits.messages:
        limits = limits.allow(allowed)
    return plan_ranges(logs, positions, limits)


def _limits(definition: KafkaTriggerDefinition) -> BatchLimits:
    return BatchLimits(definition.max_messages, definition.max_bytes)


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
