"""Resolves a trigger's starting policy to offsets before anything is read."""

from collections.abc import Mapping, Sequence

from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ledger import positions
from workorders.kafka.partitions import Partition, PartitionOffsets, Position


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
    new = positions.missing_from_ledger([log.partition for log in logs], known)
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
