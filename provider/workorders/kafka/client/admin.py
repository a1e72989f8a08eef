"""Questions to a Kafka cluster: topics, partitions, offsets; the base class asks for consumer groups. Joins none.

Asynchronous, because the triggerer asks for hundreds of triggers at once; `run` serves synchronous callers.
"""

import asyncio
import concurrent.futures
import re
from collections.abc import Awaitable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, OffsetSpec  # type: ignore[attr-defined]

from workorders.kafka.client.broker_errors import error_of, unavailable_error
from workorders.kafka.client.group_offsets import ConsumerGroups
from workorders.kafka.client.new_client import new_client
from workorders.kafka.definition.fields import REGEX_MARK
from workorders.kafka.exceptions import (
    KafkaRefusedError,
    KafkaUnavailableError,
    TopicForbiddenError,
    UnknownTopicError,
)
from workorders.kafka.partitions import Partition, PartitionOffsets

T = TypeVar("T")

REQUEST_TIMEOUT_SECONDS = 15.0

_AUTH_ERRORS = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
    }
)
_NO_SUCH_MESSAGE = -1
"""A broker's answer if no message is as young as a timestamp; every other negative number is no answer."""
_UNKNOWN_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})


def run(question: Coroutine[Any, Any, T]) -> T:
    """Ask one question from synchronous code."""
    return asyncio.run(question)


class KafkaAdmin(ConsumerGroups):
    """An administration client of one Kafka cluster; any number of triggers may share it."""

    def __init__(self, settings: Mapping[str, str], *, timeout_seconds: float = REQUEST_TIMEOUT_SECONDS) -> None:
        """Connect lazily, with `client_settings`; the timeout limits one request.

        Raises:
            ClientSettingsError: the client cannot start with these settings.
        """
        self._servers = settings.get("bootstrap.servers", "")
        self._settings = settings
        self._timeout = timeout_seconds
        self._auth_error: KafkaError | None = None
        # Critical messages only: while a broker is unavailable the client would print 18 lines per second, and our own
        # errors have what matters.
        self._client = new_client(AdminClient, {"log_level": 2, **settings, "error_cb": self._remember})

    def _remember(self, error: KafkaError) -> None:
        if error.code() in _AUTH_ERRORS:
            self._auth_error = error

    async def partitions(self, subscriptions: Sequence[str]) -> list[Partition]:
        """Return every partition of the topics that match; a regular expression may match none.

        Raises:
            UnknownTopicError: a topic given by its full name does not exist.
        """
        names = [name for name in subscriptions if not name.startswith(REGEX_MARK)]
        patterns = [name for name in subscriptions if name.startswith(REGEX_MARK)]
        if patterns:
            names = sorted({*names, *await self._matching(patterns)})
        if not names:
            return []
        return await self._describe(names)

    async def existing_partitions(self, topics: Iterable[str]) -> list[Partition]:
        """Return every partition of the topics that exist."""

        async def existing(topic: str) -> list[Partition]:
            try:
                return await self._describe([topic])
            except UnknownTopicError:
                return []

        return [part for found in await asyncio.gather(*map(existing, sorted(topics))) for part in found]

    async def writable(self, topics: Iterable[str]) -> dict[str, int | str]:
        """Return the number of partitions of each topic, or the reason why it cannot be written to."""
        names = sorted(topics)
        return dict(zip(names, await asyncio.gather(*map(self._writable, names)), strict=True))

    async def _writable(self, name: str) -> int | str:
        question = TopicCollection([name])
        futures = self._client.describe_topics(
            question, include_authorized_operations=True, request_timeout=self._timeout
        )
        try:
            (topic,) = await self._all(futures.values())
        except UnknownTopicError:
            return "the cluster has no such topic"
        except TopicForbiddenError:
            return "the cluster has no such topic, or the client may not describe it"
        # Brokers that do not know the client's permissions list none.
        if topic.authorized_operations and AclOperation.WRITE not in topic.authorized_operations:
            return "the client may not write to it"
        return len(topic.partitions)

    async def _describe(self, names: Sequence[str]) -> list[Partition]:
        futures = self._client.describe_topics(TopicCollection(list(names)), request_timeout=self._timeout)
        descriptions = await self._all(futures.values())
        return [
            Partition(topic.name, partition.id, str(topic.topic_id))
            for topic in descriptions
            for partition in topic.partitions
        ]

    async def _matching(self, patterns: Iterable[str]) -> list[str]:
        compiled = [re.compile(pattern) for pattern in patterns]
        try:
            # The only question that librdkafka answers by blocking only.
            metadata = await asyncio.to_thread(self._client.list_topics, timeout=self._timeout)
        except KafkaException as error:
            raise self._to_domain_error(error) from error
        return [
            name
            for name in metadata.topics
            if not name.startswith("__") and any(pattern.match(name) for pattern in compiled)
        ]

    async def last_stable_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the end of what `read_committed` readers may see in each partition."""
        return await self._list_offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)

    async def high_watermarks(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the end of each log, open transactions included."""
        return await self._list_offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)

    async def offsets(self, partitions: Sequence[Partition]) -> list[PartitionOffsets]:
        """Return the beginning and both ends of each partition."""
        starts, stables, ends = await asyncio.gather(
            self._list_offsets(partitions, OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED),
            self.last_stable_offsets(partitions),
            self.high_watermarks(partitions),
        )
        return [PartitionOffsets(part, starts[part], stables[part], ends[part]) for part in partitions]

    async def log_ends(
        self, topics: Iterable[str], only: Collection[tuple[str, int]] | None = None
    ) -> dict[tuple[str, int], PartitionOffsets]:
        """Return the beginning and both ends of the partitions that exist, or of `only` those, by topic and number."""
        found = [
            part for part in await self.existing_partitions(topics) if only is None or part.topic_partition in only
        ]
        return {log.partition.topic_partition: log for log in await self.offsets(found)}

    async def offsets_at(self, partitions: Sequence[Partition], timestamp_ms: int) -> dict[Partition, int | None]:
        """Return the first offset whose message is not older than the Unix time; None if no message is."""
        found = await self._list_offsets(
            partitions, OffsetSpec.for_timestamp(timestamp_ms), IsolationLevel.READ_COMMITTED
        )
        return {part: offset if offset >= 0 else None for part, offset in found.items()}

    async def _list_offsets(
        self, partitions: Iterable[Partition], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[Partition, int]:
        wanted = {TopicPartition(part.topic, part.partition): part for part in partitions}
        if not wanted:
            return {}
        futures = self._client.list_offsets(
            dict.fromkeys(wanted, spec), isolation_level=isolation, request_timeout=self._timeout
        )
        found = {
            wanted[key]: result.offset for key, result in zip(futures, await self._all(futures.values()), strict=True)
        }
        # A connection that breaks during the request ends it without an error and without an offset (seen with
        # librdkafka 2.16): taken for an offset, that would look like a truncated log.
        if any(offset < _NO_SUCH_MESSAGE for offset in found.values()):
            raise KafkaUnavailableError(f"Kafka at {self._servers} did not answer: the connection was lost.")
        return found

    async def _all(self, futures: Iterable["concurrent.futures.Future[Any]"]) -> list[Any]:
        waiting: list[Awaitable[Any]] = [asyncio.wrap_future(future) for future in futures]
        try:
            answers = list(await asyncio.gather(*waiting))
        except KafkaException as error:
            raise self._to_domain_error(error) from error
        self._auth_error = None
        return answers

    def _to_domain_error(self, exception: KafkaException) -> Exception:
        self._client.poll(0)  # serves the callback that stores why connections fail
        error = error_of(exception)
        if error.code() in _UNKNOWN_TOPIC:
            return UnknownTopicError(f"Kafka at {self._servers} does not have the topic: {error.str()}.")
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return TopicForbiddenError(self._refused_text(error))
        if error.code() in _AUTH_ERRORS:
            self._auth_error = error
        if self._auth_error is not None:
            return KafkaRefusedError(self._refused_text(self._auth_error))
        return unavailable_error(self._servers, error)

    def _refused_text(self, error: KafkaError) -> str:
        return (
            f"Kafka at {self._servers} refused the client: {error.str()}; "
            f"check the credentials and permissions of the Airflow Kafka connection."
        )
