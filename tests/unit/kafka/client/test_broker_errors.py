"""The errors when Kafka could not answer, and what is remembered of connections that fail."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from workorders.kafka.client.broker_errors import ConnectionErrors, request_error, wait_for_answer
from workorders.kafka.exceptions import KafkaRefusedError, KafkaUnavailableError


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
        str(request_error("broker:9092", error, ConnectionErrors()))
        == f"Kafka at broker:9092 {what}: {error.str()}. [WO-KAFKA-UNAVAILABLE]"
    )


def test_what_is_not_known_is_named_before_the_reason() -> None:
    error = KafkaError(KafkaError._TIMED_OUT)
    about = "the offsets of consumer group g are not known"
    text = str(request_error("broker:9092", error, ConnectionErrors(), about=about))
    why = f"the offsets of consumer group g are not known: {error.str()}."
    assert text == f"Kafka at broker:9092 did not answer: {why} [WO-KAFKA-UNAVAILABLE]"


TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "no answer")
ALERT = "Receive failed: error:0A000412:SSL routines::ssl/tls alert bad certificate"


def remembered(*errors: KafkaError) -> ConnectionErrors:
    connections = ConnectionErrors()
    for error in errors:
        connections(error)
    return connections


@pytest.mark.parametrize(
    "refusal",
    [
        KafkaError(KafkaError._AUTHENTICATION, "wrong password"),
        KafkaError(KafkaError._SSL, "unknown authority"),
        KafkaError(KafkaError._TRANSPORT, ALERT),
    ],
    ids=["login", "authority", "certificate"],
)
def test_a_request_without_an_answer_was_refused_if_a_connection_was(refusal: KafkaError) -> None:
    error = request_error("b:1", TIMED_OUT, remembered(refusal, KafkaError(KafkaError._ALL_BROKERS_DOWN)))
    assert isinstance(error, KafkaRefusedError)
    assert str(error) == (
        f"Kafka at b:1 refused the client: {refusal.str()}; check the credentials and permissions of the Airflow Kafka "
        f"connection. [WO-KAFKA-REFUSED]"
    )


def test_another_failure_of_a_connection_is_the_end_of_the_sentence() -> None:
    broken = KafkaError(KafkaError._TRANSPORT, "Connection refused")
    error = request_error("b:1", TIMED_OUT, remembered(broken, KafkaError(KafkaError._ALL_BROKERS_DOWN)))
    assert isinstance(error, KafkaUnavailableError)
    assert "did not answer: no answer (last failure of a connection: Connection refused)." in str(error)


def test_nothing_is_remembered_of_what_was_before_an_answer() -> None:
    connections = remembered(KafkaError(KafkaError._SSL, "unknown authority"), KafkaError(KafkaError._TRANSPORT, "x"))
    connections.clear()
    assert isinstance(request_error("b:1", TIMED_OUT, connections), KafkaUnavailableError)
    assert connections.reason == ""


def test_a_right_that_is_missing_is_named() -> None:
    error = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
    text = str(request_error("b:1", error, ConnectionErrors(), right="Read on group g"))
    assert "; grant Read on group g to the user of the Airflow Kafka connection. [WO-KAFKA-REFUSED]" in text


class NewClient:
    """A client of which each request fails with the next error; the one after them is answered."""

    def __init__(self, *errors: KafkaError) -> None:
        self._errors = list(errors)
        self.asked: list[float] = []

    def list_topics(self, timeout: float) -> None:
        self.asked.append(timeout)
        if self._errors:
            raise KafkaException(self._errors.pop(0))

    def poll(self, timeout: float) -> None:
        pass


def wait(client: Any, connections: ConnectionErrors, seconds: float = 60.0) -> None:
    wait_for_answer("b:1", client, connections, seconds)


def test_a_new_client_asks_again_until_it_is_answered_or_refused() -> None:
    answered = NewClient(TIMED_OUT, TIMED_OUT)
    wait(answered, ConnectionErrors())
    assert answered.asked == [15.0] * 3
    refused = NewClient(TIMED_OUT, TIMED_OUT)
    with pytest.raises(KafkaRefusedError, match="wrong password"):
        wait(refused, remembered(KafkaError(KafkaError._AUTHENTICATION, "wrong password")))
    assert len(refused.asked) == 1


def test_a_new_client_that_gets_another_error_or_no_answer_in_time_fails() -> None:
    for error, seconds in ((TIMED_OUT, 0.0), (KafkaError(KafkaError.REQUEST_TIMED_OUT), 60.0)):
        client = NewClient(error)
        with pytest.raises(KafkaException):
            wait(client, ConnectionErrors(), seconds)
        assert len(client.asked) == 1
