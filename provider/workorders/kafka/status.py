"""Status of every partition of the Kafka triggers, for people: the ledger, compared with Kafka."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from workorders.core import triggers
from workorders.core.exceptions import ConfigurationError, UnknownNameError, WorkOrdersError
from workorders.core.postgres.connection import Connection
from workorders.kafka.client.settings import SettingsOf, open_admin
from workorders.kafka.exceptions import UnknownTopicError
from workorders.kafka.ledger import positions
from workorders.kafka.ledger.positions import PartitionStatus
from workorders.kafka.partitions import Partition, PartitionOffsets, PartitionState, Place, error_at

if TYPE_CHECKING:
    from workorders.kafka.client.admin import KafkaAdmin

TRIGGER_TYPE: Final = "kafka"
TIMEOUT_SECONDS: Final = 5.0
"""A person waits for the answer, so the limit is shorter than a task's."""


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """The needed fields of a stored trigger, whose definition an older version of this package may have written."""

    name: str
    workflow: str
    consumer_group: str
    kafka_connection: str
    topics: tuple[str, ...]
    """Topics and patterns of the definition."""


@dataclass(frozen=True, slots=True)
class KafkaAnswer:
    """Kafka's answer about one trigger's topics."""

    logs: Sequence[PartitionOffsets] | None = None
    """The partitions that exist; None if Kafka did not answer."""
    committed: Mapping[Partition, int | None] = field(default_factory=dict)
    """The group's offsets; no entry if Kafka did not answer, None if the group has no offset."""
    errors: Mapping[Place, WorkOrdersError] = field(default_factory=dict)
    """Of the topics and partitions that Kafka could not answer for."""
    problem: str | None = None
    """What is unknown, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition. An offset is None if it is unknown or does not exist yet."""

    topic: str
    partition: int
    topic_id: str
    next_offset: int | None = None
    """The ledger's first offset without a work order; None for a partition that was never planned."""
    committed_offset: int | None
    last_stable: int | None
    high_watermark: int | None
    lag: int | None = None
    """Offsets up to the last stable one without a work order; at least the number of messages."""
    committed_lag: int | None
    """The same for the group's committed offset, which follows the ledger after each batch."""
    state: PartitionState
    since: datetime | None = None
    """Start of the stall; None if the partition is not stalled."""
    attempts: int = 0
    """Attempts at the batch that holds the partition."""
    next_attempt_at: datetime | None = None
    last_error: str | None = None
    """Error of the last failed attempt."""
    batch_id: int | None = None
    """The unfinished batch that holds the partition."""

    @property
    def status(self) -> str:
        """Return the state as people see it, with the number of the batch that holds the partition."""
        return f"{self.state} {self.batch_id}" if self.state is PartitionState.IN_BATCH else self.state

    @property
    def needs_attention(self) -> bool:
        """Return whether the partition stays where it is until someone or something else changes."""
        return self.state.needs_attention


@dataclass(frozen=True, slots=True)
class TriggerStatus(KafkaSource):
    """A trigger with its partitions, sorted by topic and partition."""

    problem: str | None
    """One sentence on what Kafka did not answer; None if it answered everything."""
    partitions: tuple[PartitionRow, ...]


def collect(
    connection: Connection,
    kafka: SettingsOf | None,
    trigger: str | None = None,
    *,
    with_groups: bool = True,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> list[TriggerStatus]:
    """Return the status of every Kafka trigger in the database, or of one.

    All clusters are asked at the same time. Without `kafka`, only the part of the database is returned, as if Kafka
    were unavailable. Each consumer group takes a separate connection, to its coordinator.

    Raises:
        UnknownNameError: no trigger that reads Kafka has that name.
        psycopg.Error: the database failed.
    """
    found = ask_kafka(connection, kafka, trigger, with_groups=with_groups, timeout_seconds=timeout_seconds)
    return [
        TriggerStatus(**asdict(source), problem=answer.problem, partitions=tuple(merge(rows, answer)))
        for source, rows, answer in found
    ]


def ask_kafka(
    connection: Connection,
    kafka: SettingsOf | None,
    trigger: str | None = None,
    *,
    with_groups: bool = True,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> list[tuple[KafkaSource, Sequence[PartitionStatus], KafkaAnswer]]:
    """Return Kafka triggers as `collect`, each with the rows of its ledger and Kafka's answer about it."""
    sources = kafka_sources(connection, trigger)
    rows = positions.status(connection, trigger)
    # Kafka is asked outside of any transaction, which must not wait for a network.
    connection.rollback()
    found = [(source, [row for row in rows if row.trigger == source.name]) for source in sources]
    if kafka is None:
        return [(source, own, KafkaAnswer()) for source, own in found]
    clusters = {id_: _open(id_, kafka, timeout_seconds) for id_ in {source.kafka_connection for source in sources}}

    async def ask_all() -> list[KafkaAnswer]:
        questions = (
            # A definition may no longer name a topic of the ledger.
            _ask(clusters[source.kafka_connection], source, {row.topic for row in own}, with_groups=with_groups)
            for source, own in found
        )
        return await asyncio.gather(*questions)

    return [(source, own, answer) for (source, own), answer in zip(found, asyncio.run(ask_all()), strict=True)]


def _open(connection_id: str, kafka: SettingsOf, timeout_seconds: float) -> "KafkaAdmin | ConfigurationError":
    try:
        return open_admin(connection_id, kafka, timeout_seconds=timeout_seconds)
    except ConfigurationError as error:
        return error  # the ledger is shown anyway


async def _ask(
    cluster: "KafkaAdmin | ConfigurationError", source: KafkaSource, known_topics: set[str], *, with_groups: bool
) -> KafkaAnswer:
    if isinstance(cluster, ConfigurationError):
        return KafkaAnswer(problem=str(cluster))
    answer = KafkaAnswer()
    try:
        described = await cluster.partitions([*source.topics, *known_topics])
        found = await cluster.offsets(described.found)
        errors = {**described.errors, **found.errors}
        answer = KafkaAnswer(found.found, errors=errors, problem=_problem(source, errors))
        if with_groups:
            committed = await cluster.committed(source.consumer_group, [log.partition for log in found.found])
            answer = replace(answer, committed=committed.found)
    except WorkOrdersError as error:
        return replace(answer, problem=str(error))
    return answer


def _problem(source: KafkaSource, errors: Mapping[Place, WorkOrdersError]) -> str | None:
    """Return what Kafka did not answer; a topic that only the ledger names may well be gone."""
    missing = [topic for (topic, _), error in errors.items() if isinstance(error, UnknownTopicError)]
    sentences = [
        f"{topic}{'' if number is None else f' {number}'}: {error}"
        for (topic, number), error in errors.items()
        if topic not in missing
    ]
    named = [topic for topic in missing if topic in source.topics]
    if named:
        sentences.append(f"Kafka does not have the topic {', '.join(named)}.")
    return " ".join(sentences) or None


def kafka_sources(connection: Connection, only: str | None = None) -> list[KafkaSource]:
    """Return the Kafka triggers, or one of them, with the defaults of `KafkaTriggerDefinition` for missing fields.

    Raises:
        UnknownNameError: no trigger has that name, or it is of another type.
        psycopg.Error: the database failed.
    """
    if only is not None and (type_ := triggers.find(connection, only).type) != TRIGGER_TYPE:
        raise UnknownNameError(
            f"Trigger {only} is of type {type_}, which reads no partitions; see `workorders triggers list`."
        )
    return [
        KafkaSource(
            found.name,
            found.workflow,
            found.definition.get("consumer_group") or f"workorders-{found.name}",
            found.definition.get("kafka_connection", "kafka_default"),
            tuple(found.definition.get("topics", ())),
        )
        for found in triggers.find_all(connection)
        if found.type == TRIGGER_TYPE and only in {None, found.name}
    ]


def merge(rows: Iterable[PartitionStatus], answer: KafkaAnswer) -> list[PartitionRow]:
    """Merge the ledger of one trigger with Kafka's answer; pure.

    A partition that is in only one of the two has a row as well.
    """
    ledger = {(row.topic, row.partition): row for row in rows}
    logs = {log.partition.topic_partition: log for log in answer.logs or ()}
    merged = []
    for place in sorted(ledger.keys() | logs.keys()):
        row = ledger.get(place)
        topic_id = logs[place].partition.topic_id if row is None else row.topic_id
        merged.append(_merged(Partition(*place, topic_id), row, logs.get(place), answer))
    return merged


def _merged(
    partition: Partition, row: PartitionStatus | None, log: PartitionOffsets | None, answer: KafkaAnswer
) -> PartitionRow:
    state = PartitionState.NOT_PLANNED if row is None else _state(row, log, answer)
    stall = row if state is PartitionState.STALLED else None
    next_offset = row.next_offset if row else None
    committed_offset = answer.committed.get(log.partition) if log else None
    # Offsets of a re-created topic count other messages and cannot be compared.
    same = log if log and log.partition == partition else None
    return PartitionRow(
        topic=partition.topic,
        partition=partition.partition,
        topic_id=partition.topic_id,
        next_offset=next_offset,
        committed_offset=committed_offset,
        last_stable=log.last_stable if log else None,
        high_watermark=log.high_watermark if log else None,
        lag=_lag(same, next_offset),
        committed_lag=_lag(same, committed_offset),
        state=state,
        since=stall.status_since if stall else None,
        attempts=row.attempts if row else 0,
        next_attempt_at=stall.next_attempt_at if stall else None,
        last_error=row.last_error if row else None,
        batch_id=row.batch_id if row else None,
    )


def _lag(log: PartitionOffsets | None, offset: int | None) -> int | None:
    return None if log is None or offset is None else max(log.last_stable - offset, 0)


def _state(row: PartitionStatus, log: PartitionOffsets | None, answer: KafkaAnswer) -> PartitionState:
    if row.status == "stalled":
        return PartitionState.STALLED
    if row.batch_id is not None:
        return PartitionState.IN_BATCH
    if log is None:
        return absence(row, answer)
    # The next batch of a partition that does not match stalls with the full error.
    if (mismatch := log.mismatch(row.topic_id, row.next_offset, row.stored_end)) is not None:
        return mismatch
    if log.last_stable > row.next_offset:
        return PartitionState.BEHIND
    return PartitionState.OPEN_TRANSACTION if log.last_stable < log.high_watermark else PartitionState.UP_TO_DATE


def absence(row: PartitionStatus, answer: KafkaAnswer) -> PartitionState:
    """Return why Kafka reports no offsets of a free partition."""
    if answer.logs is None:
        return PartitionState.UNKNOWN
    error = error_at(answer.errors, Partition(row.topic, row.partition, row.topic_id))
    if isinstance(error, UnknownTopicError):
        return PartitionState.TOPIC_DELETED
    return PartitionState.NOT_IN_KAFKA if error is None else PartitionState.UNKNOWN
