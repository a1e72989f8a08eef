"""Headers as PostgreSQL may hold them, and errors as the client may raise them."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from workorders.outbox.relay.checkpoints import Checkpoint
from workorders.outbox.relay.producer import ProducerFencedOrLostError, TransactionalProducer, record_headers


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("text", "text"),
        (None, None),
        ({"base64": "/w=="}, b"\xff"),
        ({"base64": "/w==", "number": 1}, b"\xff"),
        ({"base64": 1234}, b"\xd7m\xf8"),
    ],
    ids=str,
)
def test_a_header_is_sent_whatever_is_next_to_its_value(value: Any, sent: Any) -> None:
    assert record_headers([["name", value]], None, None) == [("name", sent)]


def producer_that_raises(error: Exception) -> TransactionalProducer:
    """Return a producer without a client."""

    def begin_transaction() -> None:
        raise error

    producer = TransactionalProducer.__new__(TransactionalProducer)
    producer._errors = {}
    producer._producer = SimpleNamespace(begin_transaction=begin_transaction)  # type: ignore[assignment]
    return producer


LOST = "<method 'begin_transaction' of 'cimpl.Producer' objects> returned NULL without setting an exception"
MIXED_UP = "<method 'begin_transaction' of 'cimpl.Producer' objects> returned a result with an exception set"


@pytest.mark.parametrize(
    ("text", "cause"),
    [(LOST, None), (MIXED_UP, KafkaException(KafkaError(KafkaError._FENCED, "a newer producer")))],
    ids=["lost", "mixed up"],
)
def test_a_fatal_error_that_the_client_spoils_replaces_the_producer(text: str, cause: Exception | None) -> None:
    error = SystemError(text)
    error.__cause__ = cause
    with pytest.raises(ProducerFencedOrLostError, match="a batch was not sent to its end"):
        producer_that_raises(error).send([], Checkpoint("c", 0, b"", b""))


def test_any_other_error_of_the_interpreter_is_not_taken_for_one_of_kafka() -> None:
    with pytest.raises(SystemError, match="bad argument"):
        producer_that_raises(SystemError("bad argument to internal function")).send([], Checkpoint("c", 0, b"", b""))
