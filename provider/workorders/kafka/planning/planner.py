"""Plans the next batch of a trigger: asks the cluster, chooses ranges, and records them in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workorders.core import triggers
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ledger import batches
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.partitions import OffsetRange, Partition, PartitionOffsets, Position
from workorders.kafka.planning.range_planning import BatchLimits, allowed_by_rate, drop_stale_ends, plan_ranges
from workorders.kafka.planning.starting_offsets import first_offsets


@dataclass(frozen=True, slots=True)
class Plan:
    """Result of a planner."""

    trigger: Trigger
    batch_id: int | None
    """The new batch; None if there was nothing to plan."""
    ranges: tuple[OffsetRange, ...]


async def plan_batch(connection: Connection, cluster: KafkaAdmin, definition: KafkaTriggerDefinition) -> Plan:
    """Record the next batch of a trigger, and the starting offsets of new partitions.

    Kafka is asked before the transaction begins, which must not wait for a network. Messages that arrive after that
    wait for the next batch. The second of two concurrent planners waits for the first and finds the partitions busy.

    Raises:
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
        trigger = triggers.register_definition(connection, definition)
        ledger.lock_trigger(connection, trigger)
        for partition in ledger.missing_from_ledger(starts, ledger.positions(connection, trigger.name)):
            ledger.insert(connection, trigger, partition, starts[partition])
        now = ledger.positions(connection, trigger.name)
        ranges = _ranges(connection, trigger, definition, drop_stale_ends(logs, known, now), now)
        batch_id = batches.create(connection, trigger, ranges) if ranges else None
    return Plan(trigger, batch_id, tuple(ranges))


def _ranges(
    connection: Connection,
    trigger: Trigger,
    definition: KafkaTriggerDefinition,
    logs: Sequence[PartitionOffsets],
    positions: Mapping[Partition, Position],
) -> list[OffsetRange]:
    limits = BatchLimits(definition.max_messages, definition.max_bytes)
    allowed = allowed_by_rate(
        definition.rate_limit_per_second, batches.seconds_since_last(connection, trigger), limits.messages
    )
    if allowed < limits.messages:
        limits = limits.allow(allowed)
    return plan_ranges(logs, positions, limits)
