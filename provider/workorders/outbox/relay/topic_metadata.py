"""Which topics can be written to.

The cluster is asked before anything is sent, because a producer's own request may create a topic.
"""

import time
from collections.abc import Collection, Iterable, Sequence
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

    A message in the checkpoint topic could stop a shard. `listed` are the only topics that the outbox's file allows;
    None allows all.
    """

    def __init__(self, cluster: KafkaAdmin, checkpoint_topic: str, listed: Collection[str] | None) -> None:
        self._cluster = cluster
        self._checkpoint_topic = checkpoint_topic
        self._listed = listed
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
        forbidden = self._forbidden(topics)
        unknown = [topic for topic in topics if topic not in self._partitions and topic not in forbidden]
        found = run(self._cluster.writable(unknown)) if unknown else {}
        self._partitions |= {topic: answer for topic, answer in found.items() if isinstance(answer, int)}
        return forbidden | {topic: answer for topic, answer in found.items() if isinstance(answer, str)}

    def _forbidden(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the topics to which the relay sends nothing, even if the cluster would take it, each with the reason.

        `enqueue` refuses them too. Older messages arrive here, such as those of a topic that a new file forbids.
        """
        reasons = {}
        for topic in topics:
            if topic == self._checkpoint_topic:
                reasons[topic] = "the relay keeps its own checkpoints in it"
            elif self._listed is not None and topic not in self._listed:
                reasons[topic] = "the outbox's file allows listed topics only, and does not list it"
        return reasons

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
