"""Which topics can be written to.

The cluster is asked before anything is sent: a producer's own question may make a topic.
"""

import time
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
    """The topics that can be written to and their numbers of partitions, remembered for a minute."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._partitions: dict[str, int] = {}
        self._until = 0.0

    def faults(self, topics: Sequence[str]) -> dict[str, str]:
        """Return which of the topics cannot be written to, each with the reason.

        Raises:
            KafkaUnavailableError: the cluster did not answer in time.
        """
        if time.monotonic() > self._until:
            self._partitions.clear()
            self._until = time.monotonic() + _KNOWN_SECONDS
        unknown = [topic for topic in topics if topic not in self._partitions]
        found = run(self._cluster.writable(unknown)) if unknown else {}
        self._partitions |= {topic: answer for topic, answer in found.items() if isinstance(answer, int)}
        return {topic: answer for topic, answer in found.items() if isinstance(answer, str)}

    def forget(self) -> None:
        """Ask anew before the next batch: topics or rights may have changed."""
        self._until = 0.0

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
