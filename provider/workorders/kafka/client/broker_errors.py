"""Says what it is when Kafka could not tell: no broker answered, or one did and could not help now."""

from confluent_kafka import KafkaError

from workorders.kafka.exceptions import CoordinatorMovingError, KafkaUnavailableError

COORDINATOR_UNAVAILABLE = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
"""A group has no coordinator for the moment; asking again helps."""
LEADER_UNAVAILABLE = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
"""A partition has no leader for the moment, or another one than we know of; asking again helps."""


def unavailable_error(servers: str, error: KafkaError, about: str = "") -> KafkaUnavailableError:
    """Return the error for people.

    Args:
        servers: where Kafka was asked.
        error: what the client reports.
        about: what is not known now, if that needs saying.
    """
    reason = f"{about}: {error.str()}" if about else error.str()
    kind = CoordinatorMovingError if error.code() in COORDINATOR_UNAVAILABLE else KafkaUnavailableError
    return kind(f"Kafka at {servers} {_what(error)}: {reason}.")


def _what(error: KafkaError) -> str:
    # librdkafka numbers what it finds out by itself below 0; every other error is a broker's answer.
    if error.code() < 0:
        return "did not answer"
    if error.code() in LEADER_UNAVAILABLE:
        return "is giving a partition another leader and cannot tell yet"
    if error.code() in COORDINATOR_UNAVAILABLE:
        return "is giving the group another coordinator and cannot tell yet"
    return "answered with an error"
