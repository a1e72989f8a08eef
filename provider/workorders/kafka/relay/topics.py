"""Which topics there are: asked of the cluster before anything is sent, for a producer's own question may make one."""

import time
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from workorders.kafka.cluster import Cluster, run
from workorders.kafka.relay.refusals import Refusal
from workorders.outbox.rows import ROW_PARTITION, ROW_TOPIC, OutboxRow, Row

_KNOWN_SECONDS: Final = 60.0
_TOPIC: Final = itemgetter(ROW_TOPIC)
_PARTITION: Final = itemgetter(ROW_PARTITION)


class KnownTopics:
    """The topics' numbers of partitions, remembered for a minute."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._partitions: dict[str, int] = {}
        self._until = 0.0

    def missing(self, topics: Sequence[str]) -> list[str]:
        """Return which of the topics the cluster does not have.

        Raises:
            KafkaUnavailableError: the cluster did not answer in time.
        """
        if time.monotonic() > self._until:
            self._partitions.clear()
            self._until = time.monotonic() + _KNOWN_SECONDS
        unknown = [topic for topic in topics if topic not in self._partitions]
        if unknown:
            found = run(self._cluster.existing_partitions(unknown))
            self._partitions |= Counter(partition.topic for partition in found)
        return [topic for topic in unknown if topic not in self._partitions]

    def refusal(self, rows: Sequence[Row]) -> Refusal | None:
        """Return the first message for a partition that its topic does not have."""
        if set(map(_PARTITION, rows)) <= {None}:
            return None
        for row in rows:
            partition, topic = row[ROW_PARTITION], row[ROW_TOPIC]
            if partition is not None and partition >= self._partitions[topic]:
                reason = f"topic {topic} has {self._partitions[topic]} partitions and no number {partition}"
                return Refusal(OutboxRow._make(row), reason)
        return None


def sending_topics(rows: Sequence[Row]) -> list[str]:
    """Return the topics of rows."""
    return sorted(set(map(_TOPIC, rows)))
