"""Finds the one message of a topic that Kafka refuses, by sending the topic alone in ever smaller batches."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from workorders.kafka.outbox_relay.delivery_errors import Refusal, Suspicion
from workorders.outbox.store.rows import ROW_TOPIC, OutboxRow, Row


@dataclass(slots=True)
class Careful:
    """Topics in which something was refused, and how many of their messages are sent at a time.

    Kafka refuses a whole set of messages for one of them. Halved until one message is left, the batches close in on it,
    and what stands before it is sent; then they grow again.
    """

    most: int
    limits: dict[str, int] = field(default_factory=dict)
    _turn: int = 0

    def failed(self, topic: str, sent_together: int) -> bool:
        """Note that so many messages of a topic failed together; say whether it was a single one."""
        self.limits[topic] = max(1, sent_together // 2)
        return sent_together == 1

    def closed_in(self, suspicion: Suspicion, rows: Sequence[Row]) -> Refusal | None:
        """Send less of the suspected topics at a time; return the message that failed alone."""
        counts = Counter(row[ROW_TOPIC] for row in rows)
        culprit = None
        for topic, reason in suspicion.messages.items():
            if self.failed(topic, counts[topic]):
                row = next(row for row in rows if row[ROW_TOPIC] == topic)
                culprit = Refusal(OutboxRow._make(row), reason)
        return culprit

    def went_well(self, topic: str) -> None:
        """Note that the topic's last batch was sent."""
        self.limits[topic] *= 2
        if self.limits[topic] >= self.most:
            del self.limits[topic]

    def next_topic(self) -> str | None:
        """Return the topic whose turn it is to be sent alone; None when all others have theirs.

        Every second turn belongs to the other topics.
        """
        self._turn += 1
        if not self.limits or self._turn % 2:
            return None
        return sorted(self.limits)[(self._turn // 2) % len(self.limits)]
