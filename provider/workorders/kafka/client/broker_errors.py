"""Turns errors of librdkafka into ours: a cluster refused the client, or did not answer, or cannot answer yet.

Why a client's connections fail, librdkafka reports to a callback alone; its requests just time out.
"""

import time
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Producer

from workorders.kafka.exceptions import (
    CoordinatorMovingError,
    KafkaRefusedError,
    KafkaUnavailableError,
    TopicForbiddenError,
)

REQUEST_TIMEOUT_SECONDS: Final = 15.0
FORBIDDEN: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""The client is logged in, and lacks a right."""

_NO_ANSWER: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT})
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
        KafkaError._NOENT,  # of librdkafka itself, if the cluster has told that no partition of a request has one
    }
)
"""A partition has no leader for the moment, or a new one; a retry helps."""
_REFUSED: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
    }
)
_TLS_ALERT: Final = "tls alert"
"""Part of the error if the broker ends the connection because of the client's certificate, or of its absence."""
_WITHOUT_REASON: Final = frozenset({KafkaError._ALL_BROKERS_DOWN})


class ConnectionErrors:
    """The `error_cb` of one client."""

    def __init__(self) -> None:
        #: The last error with which a broker, or the endpoint of tokens, refused the client; None if it did not.
        self.refusal: KafkaError | None = None
        self._last: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """Remember an error; librdkafka calls this while the client is polled."""
        if error.code() in _REFUSED or _TLS_ALERT in error.str():
            self.refusal = error
        elif error.code() not in _WITHOUT_REASON:
            self._last = error

    def clear(self) -> None:
        """Forget what was before a request that succeeded."""
        self.refusal = self._last = None

    @property
    def reason(self) -> str:
        """The end of a sentence about a request without an answer; empty if no connection has failed."""
        return f" (last failure of a connection: {self._last.str()})" if self._last else ""


def request_error(
    servers: str, error: KafkaError, connections: ConnectionErrors, *, about: str = "", right: str = ""
) -> KafkaRefusedError | KafkaUnavailableError:
    """Return the error to raise if a request failed.

    Args:
        servers: addresses of the cluster.
        error: of the request.
        connections: what the client's connections have failed with since its last answer.
        about: what is unknown now, if that is not obvious.
        right: what the request needs, such as "Read on topic orders".
    """
    if error.code() in FORBIDDEN:
        return refused_error(servers, error, right)
    if connections.refusal is not None:
        return refused_error(servers, connections.refusal)
    about = f"{about}: " if about else ""
    kind = CoordinatorMovingError if error.code() in COORDINATOR_UNAVAILABLE else KafkaUnavailableError
    return kind(f"Kafka at {servers} {_what(error)}: {about}{error.str()}{connections.reason}.")


def wait_for_answer(servers: str, client: Producer, connections: ConnectionErrors, seconds: float) -> None:
    """Ask with a new client until the cluster answers or the time is over. A refused login need not wait so long.

    Raises:
        KafkaRefusedError: the cluster refused the client.
        KafkaException: another failure.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            client.list_topics(timeout=min(seconds, REQUEST_TIMEOUT_SECONDS))
        except KafkaException as error:
            client.poll(0)  # stores why connections fail
            if connections.refusal is not None:
                raise refused_error(servers, connections.refusal) from error
            if error.args[0].code() not in _NO_ANSWER or time.monotonic() >= deadline:
                raise
        else:
            return


def refused_error(servers: str, error: KafkaError, right: str = "") -> KafkaRefusedError:
    """Return the error of a cluster that refused the client, or a topic to it; it lacks a right if one is named."""
    kind = TopicForbiddenError if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED else KafkaRefusedError
    to_do = f"grant {right} to the user" if right else "check the credentials and permissions"
    return kind(f"Kafka at {servers} refused the client: {error.str()}; {to_do} of the Airflow Kafka connection.")


def _what(error: KafkaError) -> str:
    if error.code() in LEADER_UNAVAILABLE:
        return "is electing a leader of a partition and cannot answer yet"
    # Negative codes are errors of the client itself; every other error is a broker's answer.
    if error.code() < 0:
        return "did not answer"
    if error.code() in COORDINATOR_UNAVAILABLE:
        return "is electing a coordinator of the group and cannot answer yet"
    return "answered with an error"
