"""Questions to a Kafka cluster: topics, partitions, offsets, consumer groups. Joins none.

Asynchronous, because the triggerer asks for hundreds of triggers at once; `run` serves synchronous callers.
"""

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    ConfigResource,
    ConsumerGroupDescription,
    OffsetSpec,
    TopicDescription,
)

from workorders.core.exceptions import WorkOrdersError
from workorders.kafka.client.broker_errors import COORDINATOR_UNAVAILABLE, FORBIDDEN, refused_error, request_error
from workorders.kafka.client.requests import Answers, ClusterClient, answer_to, committed_offsets
from workorders.kafka.definition.fields import REGEX_MARK, is_subscribed
from workorders.kafka.exceptions import GroupCommitError, KafkaUnavailableError, TopicForbiddenError, UnknownTopicError
from workorders.kafka.partitions import Partition, PartitionOffsets, Place

T = TypeVar("T")

_FORBIDDEN: Final = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
_GROUP_ACTIVE: Final = frozenset(
    {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP, KafkaError.REBALANCE_IN_PROGRESS}
)
_NO_SUCH_MESSAGE: Final = -1
"""A broker's answer if no message is as young as a timestamp; every other negative number is no answer."""
_OFFSETS_SECONDS: Final = 5.0
"""Limit of a request for the ends of logs. Until then the answers of all partitions wait for a broker that is down, and
librdkafka connects to it again without a pause, which takes a whole core."""


@lru_cache(maxsize=4)
def _shared_admin(settings: frozenset[tuple[str, str]]) -> "KafkaAdmin":
    return KafkaAdmin(dict(settings))


def shared_admin(settings: Mapping[str, str]) -> "KafkaAdmin":
    """Return the one client of this process for these settings, which are `client_settings`."""
    return _shared_admin(frozenset(settings.items()))


def run(question: Coroutine[Any, Any, T]) -> T:
    """Ask one question from synchronous code."""
    return asyncio.run(question)


class KafkaAdmin(ClusterClient):
    """An administration client of one Kafka cluster; any number of triggers may share it."""

    async def cluster_id(self) -> str:
        """Return the id of the cluster, which no other cluster has."""
        description = await self._ask_one(lambda client: [client.describe_cluster(request_timeout=self._timeout)])
        return str(description.cluster_id)

    async def partitions(self, subscriptions: Sequence[str]) -> Answers[list[Partition]]:
        """Return every partition of the topics that match, and the error of each topic that is given by its full name.

        Raises:
            KafkaUnavailableError: the cluster did not answer.
            KafkaRefusedError: the cluster refused the client.
        """
        names = [name for name in subscriptions if not name.startswith(REGEX_MARK)]
        patterns = [name for name in subscriptions if name.startswith(REGEX_MARK)]
        if patterns:
            # The only question that librdkafka answers by blocking only.
            metadata = await self._ask_one(
                lambda client: [answer_to(partial(client.list_topics, timeout=self._timeout))]
            )
            names += [
                name
                for name in metadata.topics
                if not name.startswith("__") and any(is_subscribed(pattern, name) for pattern in patterns)
            ]
        return await self._describe(sorted(set(names)))

    async def writable(self, topics: Iterable[str]) -> dict[str, int | str]:
        """Return the number of partitions of each topic, or the reason why it cannot be written to."""
        described = await self._descriptions(sorted(topics))
        return {name: _unwritable(error) for (name, _), error in described.errors.items()} | {
            name: len(topic.partitions) if _may(topic, AclOperation.WRITE) else "the client may not write to it"
            for name, topic in described.found.items()
        }

    async def _descriptions(self, names: Sequence[str]) -> Answers[dict[str, TopicDescription]]:
        return await self._ask_each(
            {(name, None): name for name in names},
            lambda client: client.describe_topics(
                TopicCollection(list(names)), include_authorized_operations=True, request_timeout=self._timeout
            ).values(),
            lambda place: f"Describe on topic {place[0]}",
        )

    async def _describe(self, names: Sequence[str], *, to_read: bool = False) -> Answers[list[Partition]]:
        described = await self._descriptions(names)
        forbidden: dict[Place, WorkOrdersError] = {
            (name, None): refused_error(self._servers, _FORBIDDEN, f"Read on topic {name}")
            for name, topic in described.found.items()
            if to_read and not _may(topic, AclOperation.READ)
        }
        found = [
            Partition(name, partition.id, str(topic.topic_id))
            for name, topic in described.found.items()
            if (name, None) not in forbidden
            for partition in topic.partitions
        ]
        return Answers(found, {**described.errors, **forbidden})

    async def last_stable_offsets(self, partitions: Iterable[Partition]) -> Answers[dict[Partition, int]]:
        """Return the end of what `read_committed` readers may see in each partition."""
        return await self._list_offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)

    async def offsets(self, partitions: Sequence[Partition]) -> Answers[list[PartitionOffsets]]:
        """Return the beginning and both ends of each partition.

        The last stable offset is below the high watermark only if a transaction is open.
        """
        # The ends first, because a message that arrives between the questions would look like an open transaction; each
        # question only about those with an answer to the one before, because a broker that is down costs seconds.
        ends = await self._list_offsets(partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
        starts = await self._list_offsets(ends.found, OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED)
        stables = await self.last_stable_offsets(starts.found)
        errors = {**ends.errors, **starts.errors, **stables.errors}
        found = [
            PartitionOffsets(partition, starts.found[partition], stable, max(stable, ends.found[partition]))
            for partition, stable in stables.found.items()
        ]
        return Answers(found, errors)

    async def cleanup_policy(self, topic: str) -> str | None:
        """Return how a topic is cleaned, such as `compact`; None if the client may not know.

        Raises:
            WorkOrdersError: the cluster did not answer, or refused the login.
        """
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        (result,) = await self._ask(
            lambda client: client.describe_configs([resource], request_timeout=self._timeout).values()
        )
        if not isinstance(result, KafkaException):
            return str(result["cleanup.policy"].value)
        if result.args[0].code() in FORBIDDEN:
            return None
        raise self._to_domain_error(result)

    async def log_ends(
        self, topics: Iterable[str], only: Collection[tuple[str, int]] | None = None, *, to_read: bool = False
    ) -> Answers[dict[tuple[str, int], PartitionOffsets]]:
        """Return the beginning and both ends of the partitions that exist, or of `only` those, by topic and number.

        A topic that does not exist has no partitions and no error. One that may be described and not read has an error
        if it is `to_read`.
        """
        described = await self._describe(sorted(topics), to_read=to_read)
        logs = await self.offsets(
            [partition for partition in described.found if only is None or partition.topic_partition in only]
        )
        found = {log.partition.topic_partition: log for log in logs.found}
        errors = {place: error for place, error in described.errors.items() if not isinstance(error, UnknownTopicError)}
        return Answers(found, {**errors, **logs.errors})

    async def offsets_at(
        self, partitions: Iterable[Partition], timestamp_ms: int
    ) -> Answers[dict[Partition, int | None]]:
        """Return the first offset whose message is not older than the Unix time; None if no message is."""
        spec = OffsetSpec.for_timestamp(timestamp_ms)
        at = await self._list_offsets(partitions, spec, IsolationLevel.READ_COMMITTED, self._timeout)
        return Answers(
            {partition: offset if offset >= 0 else None for partition, offset in at.found.items()}, at.errors
        )

    async def _list_offsets(
        self,
        partitions: Iterable[Partition],
        spec: OffsetSpec,
        isolation: IsolationLevel,
        seconds: float = _OFFSETS_SECONDS,
    ) -> Answers[dict[Partition, int]]:
        places: dict[Place, Partition] = {partition.topic_partition: partition for partition in partitions}
        specs = {TopicPartition(partition.topic, partition.partition): spec for partition in places.values()}
        seconds = min(seconds, self._timeout)
        answers = await self._ask_each(
            places,
            lambda client: client.list_offsets(specs, isolation_level=isolation, request_timeout=seconds).values(),
            by_leader=True,
        )
        # A connection that breaks during the request ends it without an error and without an offset (seen with
        # librdkafka 2.16): taken for an offset, that would look like a truncated log.
        lost = KafkaUnavailableError(f"Kafka at {self._servers} did not answer: the connection was lost.")
        found = {
            partition: answer.offset for partition, answer in answers.found.items() if answer.offset >= _NO_SUCH_MESSAGE
        }
        if places and not found and not answers.errors:
            raise lost
        errors = dict(answers.errors)
        errors |= {partition.topic_partition: lost for partition in answers.found if partition not in found}
        return Answers(found, errors)

    async def committed(self, group: str, partitions: Iterable[Partition]) -> Answers[dict[Partition, int | None]]:
        """Return the group's committed offsets; None for a partition without one.

        Raises:
            KafkaUnavailableError: the group's coordinator did not answer in time.
            KafkaRefusedError: the cluster refused the client, or it lacks a right to the group.
        """
        wanted = list(partitions)
        if not wanted:
            return Answers({}, {})
        return await asyncio.to_thread(committed_offsets, self._settings, group, wanted, self._timeout)

    async def commit(self, group: str, positions: Mapping[Partition, int]) -> None:
        """Write the group's offsets, without joining it.

        Raises:
            GroupCommitError: the group has members, or the broker refused a partition.
            CoordinatorMovingError: the group has no coordinator yet; it has one a moment later.
            KafkaUnavailableError: the cluster did not answer.
        """
        if not positions:
            return
        offsets = [
            TopicPartition(partition.topic, partition.partition, offset) for partition, offset in positions.items()
        ]
        (answer,) = await self._ask(
            lambda client: client.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group, offsets)], request_timeout=self._timeout
            ).values()
        )
        if isinstance(answer, KafkaException):
            refusal = answer.args[0]
            if refusal.code() not in _GROUP_ACTIVE:
                raise self._to_domain_error(answer, f"Read on group {group}") from answer
            raise self._not_committed(group, str(refusal.str()), {refusal.code()}) from answer
        # A live member does not make the call raise: each partition of the answer has the error.
        refused = [found for found in answer.topic_partitions if found.error is not None]
        if refused and all(found.error.code() in COORDINATOR_UNAVAILABLE for found in refused):
            raise request_error(self._servers, refused[0].error, self._errors)
        if refused:
            places = ", ".join(f"{found.topic} {found.partition}: {found.error.str()}" for found in refused)
            raise self._not_committed(group, places, {found.error.code() for found in refused})

    def _not_committed(self, group: str, reason: str, codes: set[int]) -> GroupCommitError:
        to_do = ""
        if codes & FORBIDDEN:
            resource = "these topics" if KafkaError.TOPIC_AUTHORIZATION_FAILED in codes else f"group {group}"
            to_do = f"; grant the user of the Airflow Kafka connection Read on {resource}"
        elif codes & _GROUP_ACTIVE:
            to_do = (
                "; another consumer is in this group: stop it, or give the trigger another group. Kafka's "
                f"`kafka-consumer-groups.sh --bootstrap-server {self._servers} --describe --members --group {group}` "
                "lists it"
            )
        return GroupCommitError(f"Kafka refused the offsets of consumer group {group}: {reason}{to_do}.")

    async def require_commits(self, group: str) -> None:
        """Raise unless the client may commit the group's offsets, whose coordinator must have answered just now.

        Raises:
            KafkaRefusedError: it lacks the right.
            KafkaUnavailableError: the coordinator did not answer.
        """
        # Before its coordinator has answered, librdkafka may abort the process if the connection breaks
        # (https://github.com/confluentinc/librdkafka/issues/4605).
        found = await self._ask_one(
            lambda client: client.describe_consumer_groups(
                [group], include_authorized_operations=True, request_timeout=self._timeout
            ).values(),
            f"Describe on group {group}",
        )
        if not _may(found, AclOperation.READ):
            error = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
            raise refused_error(self._servers, error, f"Read on group {group}")


def _may(described: TopicDescription | ConsumerGroupDescription, operation: AclOperation) -> bool:
    """Return whether the client may do this with a topic or a group; brokers that do not know its rights list none."""
    return not described.authorized_operations or operation in described.authorized_operations


def _unwritable(error: WorkOrdersError) -> str:
    """Return the reason in words; an error of another kind is raised, because the topic may well be writable."""
    if isinstance(error, UnknownTopicError):
        return "the cluster has no such topic"
    if isinstance(error, TopicForbiddenError):
        return "the cluster has no such topic, or the client may not describe it"
    raise error
