"""Plans the next batch of a trigger: asks the cluster, chooses ranges, and records them in one transaction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workorders.core import triggers, workflows
from workorders.core.exceptions import WorkOrdersError
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
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
from workorders.kafka.planning.starting_offsets import Polled, poll, record_starts


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
