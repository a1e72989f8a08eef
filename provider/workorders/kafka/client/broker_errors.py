"""Classifies temporary failures of Kafka: no broker answered, or one answered and has no leader or coordinator."""

from confluent_kafka import KafkaError, KafkaException

from workorders.kafka.exceptions import CoordinatorMovingError, KafkaUnavailableError

COORDINATOR_UNAVAILABLE = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
"""A group has no coordinator for the moment; a retry helps."""
LEADER_UNAVAILABLE = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
"""A partition has no leader for the moment, or a new one; a retry helps."""


def error_of(exception: KafkaException) -> KafkaError:
    """Return the error of an exception, with its code."""
    error: KafkaError = exception.args[0]
    return error


def unavailable_error(servers: str, error: KafkaError, about: str = "") -> KafkaUnavailableError:
    """Return the error to raise; `about` names what is unknown now, if that is not obvious."""
    reason = f"{about}: {error.str()}" if about else error.str()
    kind = CoordinatorMovingError if error.code() in COORDINATOR_UNAVAILABLE else KafkaUnavailableError
    return kind(f"Kafka at {servers} {_what(error)}: {reason}.")


def _what(error: KafkaError) -> str:
    # Negative codes are errors of the client itself; every other error is a broker's answer.
    if error.code() < 0:
        return "did not answer"
    if error.code() in LEADER_UNAVAILABLE:
        return "is electing a leader of a partition and cannot answer yet"
    if error.code() in COORDINATOR_UNAVAILABLE:
        return "is electing a coordinator of the group and cannot answer yet"
    return "answered with an error"
