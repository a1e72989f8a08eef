"""Finds the one message of a topic that Kafka rejects, by sending the topic alone in ever smaller batches."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from workorders.kafka.outbox_relay.delivery_errors import DeliveryFailures, RejectedMessage
from workorders.outbox.store.rows import ROW_TOPIC, OutboxRow, Row


@dataclass(slots=True)
class PoisonMessageBisector:
    """Topics with a rejected message, and how many of their messages are sent at a time.

    Kafka rejects a whole set of messages because of one of them. The limit is halved until that message is sent alone;
    the messages before it are sent meanwhile. Then the limit grows again.
    """

    max_messages: int
    limits: dict[str, int] = field(default_factory=dict)
    _turn: int = 0

    def narrow(self, failures: DeliveryFailures, rows: Sequence[Row]) -> RejectedMessage | None:
        """Send less of the failed topics at a time; return the message that failed alone."""
        counts = Counter(row[ROW_TOPIC] for row in rows)
        found = None
        for topic, reason in failures.of_messages.items():
            self.limits[topic] = max(1, counts[topic] // 2)
            if counts[topic] == 1:
                row = next(row for row in rows if row[ROW_TOPIC] == topic)
                found = RejectedMessage(OutboxRow._make(row), reason)
        return found

    def succeeded(self, topic: str) -> None:
        """Send more of a topic, whose last batch was sent."""
        self.limits[topic] *= 2
        if self.limits[topic] >= self.max_messages:
            del self.limits[topic]

    def next_topic(self) -> str | None:
        """Return the topic to send alone now; None if the other topics have their turn, which is every second one."""
        self._turn += 1
        if not self.limits or self._turn % 2:
            return None
        return sorted(self.limits)[(self._turn // 2) % len(self.limits)]
