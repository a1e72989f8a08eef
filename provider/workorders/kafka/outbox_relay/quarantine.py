"""Holds what cannot be sent, and reports it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workorders.core.postgres.connection import Connection
from workorders.kafka.outbox_relay.bisection import PoisonMessageBisector
from workorders.kafka.outbox_relay.context import RelayContext
from workorders.kafka.outbox_relay.delivery_errors import RejectedMessage
from workorders.kafka.outbox_relay.producer import ProducerFencedOrLostError
from workorders.outbox.store import holds
from workorders.outbox.store.backlog import DueHold
from workorders.outbox.store.claims import drop_claims
from workorders.outbox.store.leases import Lease
from workorders.outbox.store.rows import Row


def pause_topics(connection: Connection, lease: Lease, context: RelayContext, topics: Mapping[str, str]) -> None:
    """Give the open batch back, hold topics for the reasons given, and report it.

    Raises:
        OutboxFencedError: another relay has the lease; nothing was changed.
    """
    for topic, reason in topics.items():
        with connection.transaction():
            drop_claims(connection, lease)
            holds.hold_topic(connection, lease, topic, reason)
        context.report_failure(
            f"Topic {topic} takes no messages: {reason}. They wait, and are retried in a minute, then less "
            f"often; other topics continue."
        )


def quarantine_message(connection: Connection, lease: Lease, context: RelayContext, rejected: RejectedMessage) -> None:
    """Give the open batch back, hold the rejected message with its key or alone, and report it.

    Raises:
        OutboxFencedError: another relay has the lease; nothing was changed.
    """
    row = rejected.row
    topic = context.definition.topics.get(row.topic)
    with_key = topic is None or topic.on_refused == "hold"
    with connection.transaction():
        drop_claims(connection, lease)
        holds.hold_message(connection, lease, row, rejected.reason, with_key=with_key)
    later = "later ones of its key wait for it" if with_key and row.key is not None else "only this message is held"
    context.report_failure(
        f"Message {row.id} for topic {row.topic} was refused: {rejected.reason}. It was not sent and is "
        f"kept, {later}, all others continue; see `workorders outbox status`."
    )


@dataclass(slots=True)
class SuspectedFailures:
    """What may have cost the last producer, held before the next one would meet it again."""

    _message: RejectedMessage | None = None
    _topics: Mapping[str, str] = field(default_factory=dict)

    def record(
        self,
        error: ProducerFencedOrLostError,
        rows: Sequence[Row],
        bisector: PoisonMessageBisector,
        due: DueHold | None,
    ) -> None:
        """Remember what a producer was lost over, until it is known whether its batch is in Kafka.

        Args:
            error: how the producer was lost.
            rows: of the batch.
            bisector: finds the message among them.
            due: the hold that was retried with it. A topic that is retried alone needs no other evidence.
        """
        if error.failures is not None:
            self._message = bisector.narrow(error.failures, rows)
            self._topics = error.failures.of_topics
        elif due is not None and due.kind == "topic":
            self._topics = {due.topic: str(error)}

    def apply(self, connection: Connection, lease: Lease, context: RelayContext) -> None:
        """Hold them; no batch may be open.

        Raises:
            OutboxFencedError: another relay has the lease; nothing was changed.
        """
        message, topics = self._message, self._topics
        self._message, self._topics = None, {}
        if message is not None:
            quarantine_message(connection, lease, context, message)
        if topics:
            pause_topics(connection, lease, context, topics)
