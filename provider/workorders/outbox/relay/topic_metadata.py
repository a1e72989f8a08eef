"""Which topics can be written to.

The cluster is asked before anything is sent, because a producer's own request may create a topic.
"""

import time
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.outbox.relay.producer import DeliveryFailures, RejectedMessage, Rejection
from workorders.outbox.store.backlog import ROW_PARTITION, ROW_TOPIC, OutboxRow, Row

_CACHE_SECONDS: Final = 60.0
_TOPIC: Final = itemgetter(ROW_TOPIC)
_PARTITION: Final = itemgetter(ROW_PARTITION)


class TopicMetadataCache:
    """The topics that can be written to and their numbers of partitions, cached for a minute.

    A message in the checkpoint topic could stop a shard. `enqueue` refuses it, but it may be older than that use.
    """

    def __init__(self, cluster: KafkaAdmin, checkpoint_topic: str) -> None:
        self._cluster = cluster
        self._checkpoint_topic = checkpoint_topic
        self._partitions: dict[str, int] = {}
        self._expires_at = 0.0

    def undeliverable(self, rows: Sequence[Row]) -> Rejection | None:
        """Return what is known to be rejected, without sending it."""
        unwritable = self._unwritable(sorted(set(map(_TOPIC, rows))))
        return DeliveryFailures(of_topics=unwritable) if unwritable else self._invalid_partition(rows)

    def clear(self) -> None:
        """Ask the cluster again before the next batch, because topics or rights may have changed."""
        self._expires_at = 0.0

    def _unwritable(self, topics: Sequence[str]) -> dict[str, str]:
        """Return which of the topics cannot be written to, each with the reason."""
        if time.monotonic() > self._expires_at:
            self._partitions.clear()
            self._expires_at = time.monotonic() + _CACHE_SECONDS
        found: dict[str, int | str] = {self._checkpoint_topic: "the relay keeps its own checkpoints in it"}
        unknown = [topic for topic in topics if topic not in self._partitions and topic not in found]
        if unknown:
            found |= run(self._cluster.writable(unknown))
        self._partitions |= {topic: answer for topic, answer in found.items() if isinstance(answer, int)}
        return {topic: answer for topic in topics if isinstance(answer := found.get(topic), str)}

    def _invalid_partition(self, rows: Sequence[Row]) -> RejectedMessage | None:
        """Return the first message for a partition that its topic does not have."""
        if set(map(_PARTITION, rows)) <= {None}:
            return None
        for row in rows:
            partition, topic = row[ROW_PARTITION], row[ROW_TOPIC]
            if partition is not None and partition >= self._partitions[topic]:
                reason = f"topic {topic} has {self._partitions[topic]} partitions and no number {partition}"
                return RejectedMessage(OutboxRow._make(row), reason)
        return None
