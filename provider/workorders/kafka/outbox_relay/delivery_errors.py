"""Tells apart what fails when a message is sent: the message, its topic, or Kafka on the whole."""

from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaError

from workorders.outbox.store.rows import OutboxRow

_OF_MESSAGE: Final = frozenset(
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
_OF_TOPIC: Final = frozenset(
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


@dataclass(frozen=True, slots=True)
class Refusal:
    """One message that Kafka never takes; nothing of its batch is visible."""

    row: OutboxRow
    reason: str


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Topics of which some message failed; nothing of the batch is visible."""

    #: A message of these was refused, and it is not known which one.
    messages: dict[str, str] = field(default_factory=dict)
    #: These take nothing now.
    topics: dict[str, str] = field(default_factory=dict)


def is_of_message(error: KafkaError) -> bool:
    """Say whether the message itself is refused for good."""
    return error.code() in _OF_MESSAGE


def is_of_topic(error: KafkaError) -> bool:
    """Say whether its topic takes nothing now."""
    return error.code() in _OF_TOPIC


def is_late(error: KafkaError) -> bool:
    """Say whether nobody took the message in time: its topic has no leader or too few replicas, or Kafka is away."""
    return error.code() == KafkaError._MSG_TIMED_OUT
