"""Questions to a Kafka cluster: topics, partitions, offsets; the base class asks for consumer groups. Joins none.

Asynchronous, because the triggerer asks for hundreds of triggers at once; `run` serves synchronous callers.
"""

import asyncio
import concurrent.futures
import re
from collections.abc import Awaitable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
    OffsetSpec,
    TopicDescription,
)

from workorders.kafka.client.broker_errors import REQUEST_TIMEOUT_SECONDS, error_of, refused_text, request_error
from workorders.kafka.client.connection_errors import ConnectionErrors
from workorders.kafka.client.group_offsets import ConsumerGroups
from workorders.kafka.client.new_client import new_client
from workorders.kafka.definition.fields import REGEX_MARK
from workorders.kafka.exceptions import (
    KafkaUnavailableError,
    TopicForbiddenError,
    UnknownTopicError,
)
from workorders.kafka.partitions import Partition, PartitionOffsets

T = TypeVar("T")

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
        self._errors = ConnectionErrors()
        # Critical messages only: while a broker is unavailable the client would print 18 lines per second, and our own
        # errors have what matters.
        self._client = new_client(AdminClient, {"log_level": 2, **settings, "error_cb": self._errors})

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
        try:
            topic = await self._with_rights(name)
        except UnknownTopicError:
            return "the cluster has no such topic"
        except TopicForbiddenError:
            return "the cluster has no such topic, or the client may not describe it"
        return len(topic.partitions) if _may(topic, AclOperation.WRITE) else "the client may not write to it"

    async def unreadable(self, topics: Iterable[str]) -> dict[str, TopicForbiddenError]:
        """Return the error of each topic whose messages the client may not read; of topics that exist."""
        names = sorted(topics)
        errors = await asyncio.gather(*map(self._read_refusal, names))
        return {name: error for name, error in zip(names, errors, strict=True) if error is not None}

    async def _read_refusal(self, name: str) -> TopicForbiddenError | None:
        try:
            topic = await self._with_rights(name)
        except UnknownTopicError:
            return None
        except TopicForbiddenError as error:
            return error
        if _may(topic, AclOperation.READ):
            return None
        return self._forbidden(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), f"Read on topic {name}")

    async def _with_rights(self, name: str) -> TopicDescription:
        """Describe a topic, with what the client may do with it."""
        futures = self._client.describe_topics(
            TopicCollection([name]), include_authorized_operations=True, request_timeout=self._timeout
        )
        topic: TopicDescription
        (topic,) = await self._all(futures.values(), f"Describe on topic {name}")
        return topic

    async def _describe(self, names: Sequence[str]) -> list[Partition]:
        futures = self._client.describe_topics(TopicCollection(list(names)), request_timeout=self._timeout)
        descriptions = [(await self._all([future], f"Describe on topic {name}"))[0] for name, future in futures.items()]
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

    async def _all(self, futures: Iterable["concurrent.futures.Future[Any]"], right: str = "") -> list[Any]:
        """Return the answers to requests that need a right."""
        waiting: list[Awaitable[Any]] = [asyncio.wrap_future(future) for future in futures]
        try:
            answers = list(await asyncio.gather(*waiting))
        except KafkaException as error:
            raise self._to_domain_error(error, right) from error
        self._errors.clear()
        return answers

    def _to_domain_error(self, exception: KafkaException, right: str = "") -> Exception:
        self._client.poll(0)  # serves the callback that stores why connections fail
        error = error_of(exception)
        if error.code() in _UNKNOWN_TOPIC:
            return UnknownTopicError(f"Kafka at {self._servers} does not have the topic: {error.str()}.")
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return self._forbidden(error, right)
        return request_error(self._servers, error, self._errors, right=right)

    def _forbidden(self, error: KafkaError, right: str) -> TopicForbiddenError:
        return TopicForbiddenError(refused_text(self._servers, error, right))


def _may(topic: TopicDescription, operation: AclOperation) -> bool:
    """Return whether the client may do this with a topic; brokers that do not know its rights list none."""
    return not topic.authorized_operations or operation in topic.authorized_operations
