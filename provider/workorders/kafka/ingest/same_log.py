"""Proves, after a range was read and before it is committed, that its topic was not made again meanwhile."""

from collections.abc import Mapping

from workorders.kafka.client.admin import Cluster, run
from workorders.kafka.ingest.log_checks import require_same_log
from workorders.kafka.partitions import OffsetRange, PartitionOffsets


def prove_same_log(settings: Mapping[str, str], trigger: str, range_: OffsetRange) -> None:
    """Return when the topic has the id that the range was planned with, and its log is as long as then.

    Spark compares no topic ids. An id never comes back, so the right one *after* the last message was read says that
    all of them were this topic's; asked before the read, it would say nothing. Two requests to Kafka.

    Raises:
        RangeError: the topic was deleted, made again, or its log was cut short.
        KafkaUnavailableError: the cluster did not answer.
        KafkaRefusedError: the cluster refused us.
    """
    require_same_log(trigger, range_, run(_log(Cluster(settings), range_)))


async def _log(cluster: Cluster, range_: OffsetRange) -> PartitionOffsets | None:
    wanted = range_.partition
    there = [part for part in await cluster.existing_partitions([wanted.topic]) if part.partition == wanted.partition]
    logs = await cluster.offsets(there)
    return logs[0] if logs else None
