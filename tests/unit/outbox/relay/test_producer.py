"""Headers as PostgreSQL may hold them, and errors as the client may raise them."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from workorders.outbox.relay.producer import ProducerFencedOrLostError, TransactionalProducer, record_headers
from workorders.outbox.store.rows import OutboxRow, total_bytes


@pytest.mark.parametrize(
    ("value", "sent", "size"),
    [
        ("text", "text", 4),
        (None, None, 0),
        ({"base64": "/w=="}, b"\xff", 4),
        ({"base64": "/w==", "number": 1}, b"\xff", 4),
        ({"base64": 1234}, b"\xd7m\xf8", 4),
    ],
    ids=str,
)
def test_a_header_is_sent_and_counted_whatever_is_next_to_its_value(value: Any, sent: Any, size: int) -> None:
    assert record_headers([["name", value]], None, None) == [("name", sent)]
    row = OutboxRow(1, "topic", None, None, [["name", value]], None, None, None, 0)
    assert total_bytes([row]) == len("name") + size


def producer_that_raises(error: Exception) -> TransactionalProducer:
    """Return a producer without a client."""

    def flush(_: float) -> None:
        raise error

    producer = TransactionalProducer.__new__(TransactionalProducer)
    producer._rows, producer._checkpoint_topic = (), None
    producer._errors = {}
    producer._producer = SimpleNamespace(flush=flush)  # type: ignore[assignment]
    return producer


LOST = "<method 'flush' of 'cimpl.Producer' objects> returned NULL without setting an exception"
MIXED_UP = "<method 'flush' of 'cimpl.Producer' objects> returned a result with an exception set"


@pytest.mark.parametrize(
    ("text", "cause"),
    [(LOST, None), (MIXED_UP, KafkaException(KafkaError(KafkaError._FENCED, "a newer producer")))],
    ids=["lost", "mixed up"],
)
def test_a_fatal_error_that_the_client_spoils_replaces_the_producer(text: str, cause: Exception | None) -> None:
    error = SystemError(text)
    error.__cause__ = cause
    with pytest.raises(ProducerFencedOrLostError, match="a batch was not sent to its end"):
        producer_that_raises(error).flush()


def test_any_other_error_of_the_interpreter_is_not_taken_for_one_of_kafka() -> None:
    with pytest.raises(SystemError, match="bad argument"):
        producer_that_raises(SystemError("bad argument to internal function")).flush()
