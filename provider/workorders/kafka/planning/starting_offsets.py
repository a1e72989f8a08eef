"""Resolves where a trigger starts to read, and records that before its listener waits for messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workorders.core.exceptions import WorkOrdersError
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.client.requests import Answers
from workorders.kafka.definition.fields import is_subscribed
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import AnotherClusterError, UnknownTopicError
from workorders.kafka.ledger import positions as ledger
from workorders.kafka.partitions import Partition, PartitionOffsets, Place, Position


@dataclass(frozen=True, slots=True)
class Polled:
    """What Kafka has for a trigger, asked before a transaction that records it."""

    known: Mapping[Partition, Position]
    """The ledger before Kafka was asked."""
    subscriptions: frozenset[str]
    """The names and patterns that were polled before."""
    cluster_id: str
    logs: Sequence[PartitionOffsets]
    starts: Mapping[Partition, int]
    """First offset to read of each partition without a row in the ledger."""
    errors: Mapping[Place, WorkOrdersError]
    """Of the topics and partitions that Kafka could not answer for."""
    answered: tuple[str, ...]
    """The names and patterns for which Kafka told all that exists."""


async def poll(
    cluster: KafkaAdmin,
    definition: KafkaTriggerDefinition,
    known: Mapping[Partition, Position],
    subscriptions: frozenset[str],
) -> Polled:
    """Ask Kafka for the partitions of a trigger, their ends, and where new ones begin.

    Raises:
        KafkaUnavailableError: the cluster did not answer.
        KafkaRefusedError: the cluster refused the client.
        TopicForbiddenError: a new trigger may describe none of its topics.
        AnotherClusterError: the connection leads to another cluster than all partitions of the ledger.
    """
    cluster_id = await cluster.cluster_id()
    _require_own_cluster(definition, cluster_id, known)
    partitions = await cluster.partitions(definition.topics)
    for error in () if known or partitions.found else partitions.errors.values():
        if not isinstance(error, UnknownTopicError):
            raise error
    logs = await cluster.offsets(partitions.found)
    starts = await first_offsets(cluster, definition, logs.found, known, subscriptions)
    errors = {**partitions.errors, **logs.errors, **starts.errors}
    polled = answered(definition, errors)
    return Polled(known, subscriptions, cluster_id, logs.found, starts.found, errors, polled)


def answered(definition: KafkaTriggerDefinition, errors: Mapping[Place, WorkOrdersError]) -> tuple[str, ...]:
    """Return the trigger's names and patterns for which Kafka told all that exists."""
    unanswered = {topic for (topic, _), error in errors.items() if not isinstance(error, UnknownTopicError)}
    return tuple(name for name in definition.topics if not any(is_subscribed(name, topic) for topic in unanswered))


def _require_own_cluster(
    definition: KafkaTriggerDefinition, cluster_id: str, known: Mapping[Partition, Position]
) -> None:
    """Refuse another cluster before its topics are taken for new or re-created ones, until a decision accepts one."""
    expected = {position.cluster_id for position in known.values()}
    if expected and not expected & {None, cluster_id}:
        raise AnotherClusterError.of(definition.name, ", ".join(sorted(filter(None, expected))), cluster_id)


def record_starts(connection: Connection, trigger: Trigger, polled: Polled) -> list[str]:
    """Add the partitions that the ledger does not have, and what was polled; return it in words.

    Nothing is added if another poll has changed what the policy applies to since Kafka was asked: its offsets count.
    The trigger is locked.
    """
    if ledger.subscriptions(connection, trigger.name) != polled.subscriptions:
        return []
    recorded = []
    for partition in ledger.missing_from_ledger(polled.starts, ledger.positions(connection, trigger.name)):
        ledger.insert(connection, trigger, partition, polled.starts[partition], polled.cluster_id)
        recorded.append(f"{partition} is read from offset {polled.starts[partition]} on")
    ledger.insert_subscriptions(connection, trigger, polled.answered)
    missing = [topic for (topic, _), error in polled.errors.items() if isinstance(error, UnknownTopicError)]
    new = [topic for topic in missing if topic in set(polled.answered) - polled.subscriptions]
    return recorded + [f"{topic} does not exist yet and will be read from its first offset on" for topic in new]


async def first_offsets(
    cluster: KafkaAdmin,
    definition: KafkaTriggerDefinition,
    logs: Sequence[PartitionOffsets],
    known: Mapping[Partition, Position],
    subscriptions: frozenset[str],
) -> Answers[dict[Partition, int]]:
    """Return the first offset to read of each partition without a row in the ledger.

    What was created after the trigger had polled its name or pattern, or next to partitions that the ledger has, starts
    at its first offset, regardless of the policy: all its messages are newer. Anything else starts by policy.
    """
    new = set(ledger.missing_from_ledger([log.partition for log in logs], known))
    known_topics = {partition.topic for partition in known}

    def is_younger(topic: str) -> bool:
        return topic in known_topics or any(is_subscribed(name, topic) for name in subscriptions)

    unread = [log for log in logs if log.partition in new]
    by_policy = await _by_policy(cluster, definition, [log for log in unread if not is_younger(log.partition.topic)])
    starts = {log.partition: log.log_start for log in unread if is_younger(log.partition.topic)}
    return Answers(starts | by_policy.found, by_policy.errors)


async def _by_policy(
    cluster: KafkaAdmin, definition: KafkaTriggerDefinition, logs: Sequence[PartitionOffsets]
) -> Answers[dict[Partition, int]]:
    starting = definition.starting_offsets
    firsts = {log.partition: log.log_start for log in logs}
    lasts = {log.partition: log.last_stable for log in logs}
    if starting == "latest":
        return Answers(lasts, {})
    if isinstance(starting, int):
        return _with_default(await cluster.offsets_at(firsts, starting), lasts)
    if starting == "committed":
        return _with_default(await cluster.committed(definition.consumer_group, firsts), firsts)
    return Answers(firsts, {})


def _with_default(
    answers: Answers[dict[Partition, int | None]], default: Mapping[Partition, int]
) -> Answers[dict[Partition, int]]:
    found = {partition: default[partition] if offset is None else offset for partition, offset in answers.found.items()}
    return Answers(found, answers.errors)
