"""The errors when Kafka could not answer."""

import pytest
from confluent_kafka import KafkaError

from workorders.kafka.client.broker_errors import unavailable_error


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (KafkaError._TRANSPORT, "did not answer"),
        (KafkaError._TIMED_OUT, "did not answer"),
        (KafkaError.NOT_LEADER_FOR_PARTITION, "is electing a leader of a partition and cannot answer yet"),
        (KafkaError.LEADER_NOT_AVAILABLE, "is electing a leader of a partition and cannot answer yet"),
        (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, "is electing a coordinator of the group and cannot answer yet"),
        (KafkaError.REQUEST_TIMED_OUT, "answered with an error"),
    ],
)
def test_a_broker_that_answered_is_not_reported_as_unavailable(code: int, what: str) -> None:
    error = KafkaError(code)
    assert (
        str(unavailable_error("broker:9092", error))
        == f"Kafka at broker:9092 {what}: {error.str()}. [WO-KAFKA-UNAVAILABLE]"
    )


def test_what_is_not_known_is_named_before_the_reason() -> None:
    error = KafkaError(KafkaError._TIMED_OUT)
    text = str(unavailable_error("broker:9092", error, "the offsets of consumer group g are not known"))
    why = f"the offsets of consumer group g are not known: {error.str()}."
    assert text == f"Kafka at broker:9092 did not answer: {why} [WO-KAFKA-UNAVAILABLE]"
