"""Classifies delivery errors: of the message, of its topic, or of the cluster."""

from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaError

from workorders.outbox.store.backlog import OutboxRow

OF_MESSAGE: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._INVALID_ARG,
        KafkaError._BAD_MSG,
    }
)
"""Codes of errors by which the message itself is rejected for good."""
OF_TOPIC: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""Codes of errors by which a topic takes no message now."""


@dataclass(frozen=True, slots=True)
class RejectedMessage:
    """One message that Kafka never takes; nothing of its batch is visible."""

    row: OutboxRow
    reason: str


@dataclass(frozen=True, slots=True)
class DeliveryFailures:
    """Topics with messages that were not delivered, each with the reason; nothing of the batch is visible."""

    #: A message of these topics was rejected; which one is unknown.
    of_messages: dict[str, str] = field(default_factory=dict)
    #: These topics take no message now.
    of_topics: dict[str, str] = field(default_factory=dict)


Rejection = RejectedMessage | DeliveryFailures
