"""Requests to one cluster, and what it answers: an error is that of one topic or partition."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

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

Futures = Iterable["Future[Any]"]

_MEMORY: Final = {"topic.metadata.refresh.interval.ms": 5_000, "metadata.max.age.ms": 900_000}
"""How often a client asks which brokers there are (with librdkafka's own 5 minutes, it would wait as long for a broker
that is gone, even if others answer), and how long it remembers a topic after the last answer about it."""
_RENEW_SECONDS: Final = 600.0
"""A client is replaced before it forgets a topic, which would be news as well."""
_MOST_CLIENTS: Final = 4
_AGAIN_SECONDS: Final = 0.2
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


@dataclass(slots=True)
class _Client:
    admin: AdminClient
    made: float
    """When it was made, by `time.monotonic`."""
    has_answered: bool = False


class ClusterClient:
    """Few clients of one cluster; each is asked one thing at a time, and replaced if a broker did not answer it.

    librdkafka (2.16) ends the process with a segmentation fault if a client hears anything new about topics while a
    request for offsets, on another thread, finds that it does not know the leader of a partition: both threads then end
    one operation (`rd_kafka_topic_partition_list_query_leaders_async`). So no answer to another request may come in
    meanwhile, and none to what librdkafka asks by itself: with a new connection, until the client has answered once.
    """

    def __init__(self, settings: Mapping[str, str], *, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS) -> None:
        """Connect lazily, with `client_settings`; the timeout limits one request.

        Raises:
            ClientSettingsError: the client cannot start with these settings.
        """
        self._servers = settings.get("bootstrap.servers", "")
        self._settings = settings
        self._timeout = timeout_seconds
        self._errors = ConnectionErrors()
        self._idle = [self._connect()]
        self._threads = ThreadPoolExecutor(_MOST_CLIENTS, thread_name_prefix="workorders-kafka")

    def _connect(self) -> _Client:
        settings = {"log_level": 2, **self._settings, **_MEMORY, "error_cb": self._errors}
        return _Client(new_client(AdminClient, settings), time.monotonic())

    def _take(self) -> _Client:
        try:
            client = self._idle.pop()
        except IndexError:
            return self._connect()
        return client if time.monotonic() < client.made + _RENEW_SECONDS else self._connect()

    async def _ask(self, ask: Callable[[AdminClient], Futures], *, by_leader: bool = False) -> list[Any]:
        """Return the result of each request, or the `KafkaException` with which it failed.

        Args:
            ask: sends the requests.
            by_leader: they go to the leaders of partitions, which a client remembers for minutes: only the errors of a
                new one count.

        Raises:
            WorkOrdersError: a new client got no answer at all.
        """
        return await asyncio.wrap_future(self._threads.submit(self._ask_alone, ask, by_leader))

    def _ask_alone(self, ask: Callable[[AdminClient], Futures], by_leader: bool) -> list[Any]:
        client = self._take()
        is_new = not client.has_answered
        if is_new and by_leader:
            (cluster,) = self._results(client, lambda admin: [admin.describe_cluster(request_timeout=self._timeout)])
            if isinstance(cluster, KafkaException):
                raise self._to_domain_error(cluster) from cluster
        results = self._results(client, ask)
        failures = [result for result in results if isinstance(result, KafkaException)]
        if any(map(_is_unanswered, failures)):
            return (
                results  # the client would wait for the brokers that it knows; the next one asks again which there are
            )
        if failures and by_leader:
            return results if is_new else self._ask_alone(ask, by_leader)
        client.has_answered = True
        self._idle.append(client)
        return results

    def _results(self, client: _Client, ask: Callable[[AdminClient], Futures]) -> list[Any]:
        results = [future.exception() or future.result() for future in [*ask(client.admin)]]
        client.admin.poll(0)  # serves the callback that stores why connections fail
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, KafkaException):
                raise result
        if not all(isinstance(result, KafkaException) for result in results):
            self._errors.clear()
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
        *,
        by_leader: bool = False,
    ) -> Answers[dict[K, Any]]:
        """Return the results of one request for each place, in their order; raise if no broker answered any of it."""
        results = dict(zip(places, await self._ask(ask, by_leader=by_leader), strict=True)) if places else {}
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


def answer_to(ask: Callable[[], Any]) -> "Future[Any]":
    """Return the future of a question that blocks until it is answered."""
    future: Future[Any] = Future()
    try:
        future.set_result(ask())
    except KafkaException as error:
        future.set_exception(error)
    return future


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
