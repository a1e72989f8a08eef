"""Holds what cannot be sent, and finds the one message of a topic that Kafka rejects."""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.outbox.relay.context import RelayContext
from workorders.outbox.relay.delivery_errors import DeliveryFailures, RejectedMessage, Rejection
from workorders.outbox.relay.producer import ProducerFencedOrLostError
from workorders.outbox.store import holds
from workorders.outbox.store.backlog import DueHold
from workorders.outbox.store.claims import drop_claims
from workorders.outbox.store.leases import Lease
from workorders.outbox.store.rows import ROW_TOPIC, OutboxRow, Row

log: Final = logging.getLogger(__name__)


class Quarantine:
    """What a shard does about rejections.

    Kafka rejects a whole set of messages because of one of them. So a topic with a rejected message is sent alone, and
    the number of its messages per batch is halved until that message is sent alone (bisection). The messages before it
    are sent meanwhile. Then the number grows again.
    """

    def __init__(self, connection: Connection, lease: Lease, context: RelayContext) -> None:
        self._connection = connection
        self._lease = lease
        self._context = context
        #: Topics with a rejected message, and how many of their messages are sent at a time.
        self.limits: dict[str, int] = {}
        self._turn = 0
        # What may have cost the last producer.
        self._suspected_message: RejectedMessage | None = None
        self._suspected_topics: Mapping[str, str] = {}

    def next_topic(self) -> str | None:
        """Return the topic to send alone now; None if the other topics have their turn, which is every second one."""
        self._turn += 1
        if not self.limits or self._turn % 2:
            return None
        return sorted(self.limits)[(self._turn // 2) % len(self.limits)]

    def succeeded(self, topic: str) -> None:
        """Send more of a topic, whose last batch was sent."""
        self.limits[topic] *= 2
        if self.limits[topic] >= self._context.definition.batch_messages:
            del self.limits[topic]

    def hold(self, rejection: Rejection, rows: Sequence[Row]) -> None:
        """Give the open batch back, and hold what was rejected of it, as far as that is known.

        Args:
            rejection: nothing of the batch is visible in Kafka.
            rows: of the batch.
        """
        if isinstance(rejection, DeliveryFailures) and rejection.of_topics:
            self._hold_topics(rejection.of_topics)
            return
        found = rejection if isinstance(rejection, RejectedMessage) else self._narrow(rejection, rows)
        if found is not None:
            self._hold_message(found)
        else:
            drop_claims(self._connection, self._lease)

    def suspect(self, error: ProducerFencedOrLostError, rows: Sequence[Row], due: DueHold | None) -> None:
        """Remember what a producer was lost over, until it is known whether its batch is in Kafka.

        Args:
            error: how the producer was lost.
            rows: of the batch.
            due: the hold that was retried with it. A topic that is retried alone needs no other evidence.
        """
        if error.failures is not None:
            self._suspected_message = self._narrow(error.failures, rows)
            self._suspected_topics = error.failures.of_topics
        elif due is not None and due.kind == "topic":
            self._suspected_topics = {due.topic: str(error)}

    def hold_suspected(self) -> None:
        """Hold what may have cost the last producer, before the next one meets it again; no batch may be open."""
        message, topics = self._suspected_message, self._suspected_topics
        self._suspected_message, self._suspected_topics = None, {}
        if message is not None:
            self._hold_message(message)
        self._hold_topics(topics)

    def _narrow(self, failures: DeliveryFailures, rows: Sequence[Row]) -> RejectedMessage | None:
        """Send less of the failed topics at a time; return the message that failed alone."""
        counts = Counter(row[ROW_TOPIC] for row in rows)
        found = None
        for topic, reason in failures.of_messages.items():
            self.limits[topic] = max(1, counts[topic] // 2)
            if counts[topic] == 1:
                row = next(row for row in rows if row[ROW_TOPIC] == topic)
                found = RejectedMessage(OutboxRow._make(row), reason)
        return found

    def _hold_topics(self, topics: Mapping[str, str]) -> None:
        for topic, reason in topics.items():
            with self._connection.transaction():
                drop_claims(self._connection, self._lease)
                holds.hold_topic(self._connection, self._lease, topic, reason)
            self._report(
                f"Topic {topic} takes no messages: {reason}. They wait, and are retried in a minute, then less "
                f"often; other topics continue."
            )

    def _hold_message(self, rejected: RejectedMessage) -> None:
        row = rejected.row
        topic = self._context.definition.topics.get(row.topic)
        with_key = topic is None or topic.on_refused == "hold"
        with self._connection.transaction():
            drop_claims(self._connection, self._lease)
            holds.hold_message(self._connection, self._lease, row, rejected.reason, with_key=with_key)
        later = "later ones of its key wait for it" if with_key and row.key is not None else "only this message is held"
        self._report(
            f"Message {row.id} for topic {row.topic} was refused: {rejected.reason}. It was not sent and is "
            f"kept, {later}, all others continue; see `workorders outbox status`."
        )

    def _report(self, sentence: str) -> None:
        log.error("%s", sentence)
        self._context.failures.append(sentence)
