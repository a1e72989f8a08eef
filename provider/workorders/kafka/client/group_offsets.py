"""Reads and commits the offsets of a consumer group, without joining it."""

import asyncio
import time
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

from workorders.core.exceptions import WorkOrdersError
from workorders.kafka.client.broker_errors import (
    COORDINATOR_UNAVAILABLE,
    FORBIDDEN,
    ConnectionErrors,
    refused_error,
    request_error,
    unavailable_error,
)
from workorders.kafka.client.new_client import new_client
from workorders.kafka.client.requests import Answers, ClusterClient
from workorders.kafka.exceptions import GroupCommitError
from workorders.kafka.partitions import Partition, Place

_AGAIN_SECONDS = 0.2
_GROUP_ACTIVE = frozenset({KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP, KafkaError.REBALANCE_IN_PROGRESS})


class ConsumerGroups(ClusterClient):
    """The consumer groups of a cluster: the base of `KafkaAdmin`."""

    async def committed(self, group: str, partitions: Iterable[Partition]) -> Answers[dict[Partition, int | None]]:
        """Return the group's committed offsets; None for a partition without one.

        Raises:
            KafkaUnavailableError: the group's coordinator did not answer in time.
            KafkaRefusedError: the cluster refused the client, or it lacks a right to the group.
        """
        wanted = list(partitions)
        if not wanted:
            return Answers({}, {})
        return await asyncio.to_thread(_ask, self._settings, group, wanted, self._timeout)

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
            raise unavailable_error(self._servers, refused[0].error)
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
        # Brokers that do not know the client's rights list none.
        if found.authorized_operations and AclOperation.READ not in found.authorized_operations:
            error = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
            raise refused_error(self._servers, error, f"Read on group {group}")


def _ask(
    settings: Mapping[str, str], group: str, wanted: list[Partition], timeout_seconds: float
) -> Answers[dict[Partition, int | None]]:
    """Ask by a consumer without a subscription, which joins nothing and waits for the group's coordinator.

    The administration client has this request as well, but librdkafka ends the process with a segmentation fault while
    the coordinator is being elected (https://github.com/confluentinc/librdkafka/issues/5040).
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
    answers = {(answer.topic, answer.partition): answer for answer in found}
    errors: dict[Place, WorkOrdersError] = {
        place: to_domain_error(answer.error) for place, answer in answers.items() if answer.error is not None
    }
    # librdkafka has negative numbers for "none".
    return Answers(
        {
            partition: offset if (offset := answers[partition.topic_partition].offset) >= 0 else None
            for partition in wanted
            if partition.topic_partition not in errors
        },
        errors,
    )


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
