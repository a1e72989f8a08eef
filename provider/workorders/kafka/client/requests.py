"""Requests to one cluster, and what it answers: an error is that of one topic or partition."""

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from workorders.core.exceptions import WorkOrdersError
from workorders.kafka.client.broker_errors import (
    COORDINATOR_UNAVAILABLE,
    LEADER_UNAVAILABLE,
    REQUEST_TIMEOUT_SECONDS,
    ConnectionErrors,
    request_error,
)
from workorders.kafka.client.new_client import new_client
from workorders.kafka.exceptions import UnknownTopicError
from workorders.kafka.partitions import Partition, Place

T = TypeVar("T")
K = TypeVar("K")

Futures = Iterable["concurrent.futures.Future[Any] | asyncio.Future[Any]"]

_REFRESH: Final = "topic.metadata.refresh.interval.ms"
"""How often a client asks which brokers there are. With librdkafka's own 5 minutes, a client would wait as long for a
broker that is gone, even if others answer."""
_AGAIN_SECONDS: Final = 0.2
_NO_PARTITION: Final = 2**31 - 1
"""No topic has it: a client that is asked for its offsets learns the topic's leaders, and asks none of them."""
_UNKNOWN_TOPIC: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """What a cluster answered about several topics or partitions."""

    found: T
    errors: Mapping[Place, WorkOrdersError]
    """Of the topics and partitions that the cluster could not answer for; what was found is not affected. See
    `error_at`."""

    def require(self) -> T:
        """Return the answers if none is missing.

        Raises:
            WorkOrdersError: the first error.
        """
        for error in self.errors.values():
            raise error
        return self.found


class ClusterClient:
    """The client of one cluster, which is replaced if a broker did not answer it."""

    def __init__(self, settings: Mapping[str, str], *, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS) -> None:
        """Connect lazily, with `client_settings`; the timeout limits one request.

        Raises:
            ClientSettingsError: the client cannot start with these settings.
        """
        self._servers = settings.get("bootstrap.servers", "")
        self._settings = settings
        self._timeout = timeout_seconds
        self._errors = ConnectionErrors()
        self._lookup = threading.Lock()
        self._connect()

    def _connect(self) -> None:
        settings = {"log_level": 2, _REFRESH: 5000, **self._settings, "error_cb": self._errors}
        self._client: AdminClient = new_client(AdminClient, settings)
        self._located: set[str] = set()
        """The topics whose leaders the client knows."""

    async def _locate(self, topics: set[str], seconds: float) -> None:
        """Let the client learn the leaders of topics, in one request at a time, before it is asked for their offsets.

        librdkafka (2.16) ends the process with a segmentation fault if a request for offsets begins to look up a topic
        that the client does not know while the answer to another look-up of this topic arrives: two threads then end
        one operation (`rd_kafka_topic_partition_list_query_leaders_async`).

        Raises:
            WorkOrdersError: the cluster did not answer within the seconds, or refused the client.
        """
        while not topics <= self._located:
            await self._ask_one(lambda _: [asyncio.ensure_future(asyncio.to_thread(self._look_up, topics, seconds))])

    def _look_up(self, topics: set[str], seconds: float) -> None:
        with self._lookup:
            located = self._located  # before the client: one that comes in between has located nothing
            unknown = topics - located
            if not unknown:
                return
            places = {TopicPartition(topic, _NO_PARTITION): OffsetSpec.latest() for topic in unknown}
            futures = self._client.list_offsets(places, request_timeout=seconds).values()
            for failure in [future.exception() for future in futures]:
                if not (isinstance(failure, KafkaException) and failure.args[0].code() == KafkaError._NOENT):
                    raise failure or RuntimeError(f"Kafka at {self._servers} has a partition {_NO_PARTITION}.")
            located |= unknown

    async def _ask(self, ask: Callable[[AdminClient], Futures]) -> list[Any]:
        """Return the result of each request, or the `KafkaException` with which it failed."""
        client = self._client
        results = await asyncio.gather(*(asyncio.wrap_future(future) for future in ask(client)), return_exceptions=True)
        client.poll(0)  # serves the callback that stores why connections fail
        failures = [result for result in results if isinstance(result, BaseException)]
        for failure in failures:
            if not isinstance(failure, KafkaException):
                raise failure
        if len(failures) < len(results):
            self._errors.clear()
        if any(map(_is_unanswered, failures)) and client is self._client:
            # A client waits for the brokers that it knows, and learns of others minutes later. A new one asks again.
            self._connect()
        return results

    async def _ask_one(self, ask: Callable[[AdminClient], Futures], right: str = "") -> Any:
        """Return the result of one request, which needs the right; raise a `WorkOrdersError` if it failed."""
        (result,) = await self._ask(ask)
        if isinstance(result, KafkaException):
            raise self._to_domain_error(result, right) from result
        return result

    async def _ask_each(
        self,
        places: Mapping[Place, K],
        ask: Callable[[AdminClient], Futures],
        right_of: Callable[[Place], str] = lambda _: "",
    ) -> Answers[dict[K, Any]]:
        """Return the results of one request for each place, in their order; raise if no broker answered any of it."""
        results = dict(zip(places, await self._ask(ask), strict=True)) if places else {}
        failures = {place: result for place, result in results.items() if isinstance(result, KafkaException)}
        errors = {place: self._to_domain_error(failure, right_of(place)) for place, failure in failures.items()}
        if failures and len(failures) == len(results) and all(map(_is_unanswered, failures.values())):
            raise next(iter(errors.values()))
        found = {places[place]: result for place, result in results.items() if place not in failures}
        return Answers(found, errors)

    def _to_domain_error(self, exception: KafkaException, right: str = "") -> WorkOrdersError:
        """Return the error of this package for one of the client's."""
        error: KafkaError = exception.args[0]
        if error.code() in _UNKNOWN_TOPIC:
            return UnknownTopicError(f"Kafka at {self._servers} does not have the topic: {error.str()}.")
        return request_error(self._servers, error, self._errors, right=right)


def _is_unanswered(failure: BaseException) -> bool:
    """Return whether no broker answered: other negative codes are errors of the client itself."""
    code: int = failure.args[0].code() if isinstance(failure, KafkaException) else 0
    return code < 0 and code not in _UNKNOWN_TOPIC | LEADER_UNAVAILABLE


def committed_offsets(
    settings: Mapping[str, str], group: str, wanted: list[Partition], timeout_seconds: float
) -> Answers[dict[Partition, int | None]]:
    """Return what `KafkaAdmin.committed` does, by a consumer without a subscription, which joins nothing.

    It waits for the group's coordinator. The administration client has this request as well, but librdkafka ends the
    process with a segmentation fault while the coordinator is being elected
    (https://github.com/confluentinc/librdkafka/issues/5040).
    """
    connections = ConnectionErrors()

    def to_domain_error(error: KafkaError) -> WorkOrdersError:
        resource = "these topics" if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED else f"group {group}"
        about, servers = f"the offsets of consumer group {group} are unknown", settings.get("bootstrap.servers", "")
        return request_error(servers, error, connections, about=about, right=f"Describe on {resource}")

    own = {"group.id": group, "enable.auto.commit": False, "error_cb": connections}
    consumer = new_client(Consumer, {"log_level": 2, **settings, **own})
    try:
        found = _until_coordinated(consumer, wanted, time.monotonic() + timeout_seconds)
    except KafkaException as error:
        # A missing right to the group lets the request time out, and comes as an event.
        event = consumer.poll(0)
        raise to_domain_error((event.error() if event is not None else None) or error.args[0]) from error
    finally:
        consumer.close()
    places = {partition.topic_partition: partition for partition in wanted}
    offsets: dict[Partition, int | None] = {}
    errors: dict[Place, WorkOrdersError] = {}
    for answer in found:
        place = (answer.topic, answer.partition)
        if answer.error is not None:
            errors[place] = to_domain_error(answer.error)
        else:
            # librdkafka has negative numbers for "none".
            offsets[places[place]] = answer.offset if answer.offset >= 0 else None
    return Answers(offsets, errors)


def _until_coordinated(consumer: Consumer, wanted: Iterable[Partition], deadline: float) -> list[TopicPartition]:
    """Retry while the group's coordinator is being elected, which librdkafka learns only from a refusal."""
    places = [TopicPartition(partition.topic, partition.partition) for partition in wanted]
    while True:
        try:
            return consumer.committed(places, max(deadline - time.monotonic(), _AGAIN_SECONDS))
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_UNAVAILABLE or time.monotonic() > deadline:
                raise
            consumer.poll(_AGAIN_SECONDS)
