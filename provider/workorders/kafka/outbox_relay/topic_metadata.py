"""Which topics can be written to.

The cluster is asked before anything is sent: a producer's own question may make a topic.
"""

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from workorders.kafka.client.admin import Cluster, run
from workorders.kafka.outbox_relay.delivery_errors import Refusal
from workorders.outbox.store.rows import ROW_PARTITION, ROW_TOPIC, OutboxRow, Row

_KNOWN_SECONDS: Final = 60.0
_TOPIC: Final = itemgetter(ROW_TOPIC)
_PARTITION: Final = itemgetter(ROW_PARTITION)


@dataclass(frozen=True, slots=True)
class RefusedTopics:
    """The topics to which the relay sends nothing, whatever the cluster says.

    `enqueue_many` refuses them as well. What waited before it did comes here, and so does what waits for a topic that
    a new definition refuses.
    """

    #: Where the markers lie: what is sent there could stop a shard.
    markers_topic: str
    #: The only ones that are sent to; None for all.
    listed: Collection[str] | None

    def among(self, topics: Iterable[str]) -> dict[str, str]:
        """Return which of the topics are refused, each with the reason."""
        reasons = {}
        for topic in topics:
            if topic == self.markers_topic:
                reasons[topic] = "the relay keeps its own markers in it"
            elif self.listed is not None and topic not in self.listed:
                reasons[topic] = "the outbox's file allows listed topics only, and does not list it"
        return reasons


class KnownTopics:
    """The topics that can be written to and their numbers of partitions, remembered for a minute."""

    def __init__(self, cluster: Cluster, refused: RefusedTopics) -> None:
        self._cluster = cluster
        self._refused = refused
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
        refused = self._refused.among(topics)
        unknown = [topic for topic in topics if topic not in self._partitions and topic not in refused]
        found = run(self._cluster.writable(unknown)) if unknown else {}
        self._partitions |= {topic: answer for topic, answer in found.items() if isinstance(answer, int)}
        return refused | {topic: answer for topic, answer in found.items() if isinstance(answer, str)}

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
