"""Status of every partition of a trigger: the ledger, compared with Kafka."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from workorders.core import triggers
from workorders.core.exceptions import ConfigurationError, WorkOrdersError
from workorders.core.history import work_orders
from workorders.core.history.work_orders import RegisteredTrigger
from workorders.core.postgres.connection import Connection
from workorders.kafka.client.open import SILENT, open_admin
from workorders.kafka.definition.fields import REGEX_MARK
from workorders.kafka.ledger import positions
from workorders.kafka.ledger.positions import PartitionStatus
from workorders.kafka.partitions import Partition, PartitionOffsets
from workorders.kafka.planning.open_transactions import blocked_by_transactions
from workorders.kafka.status import group_status

if TYPE_CHECKING:
    from workorders.kafka.client.admin import KafkaAdmin

TRIGGER_TYPE = "kafka"
TIMEOUT_SECONDS = 5.0
"""A person waits for the answer, so the limit is shorter than a task's."""

OPEN_TRANSACTION = "waiting for an open transaction"


@dataclass(frozen=True, slots=True)
class KafkaAnswer:
    """Kafka's answer about one trigger's topics."""

    logs: Sequence[PartitionOffsets] | None = None
    """The partitions that exist; None if Kafka did not answer."""
    committed: Mapping[Partition, int | None] = field(default_factory=dict)
    """The group's offsets; no entry if Kafka did not answer, None if the group has no offset."""
    problem: str | None = None
    """One sentence on what is unknown, and why."""
    members: Sequence[str] = ()
    """Consumers in the group: client id and host."""


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """The needed fields of a stored definition, which an older version of this package may have written."""

    topics: tuple[str, ...]
    group: str
    kafka_connection: str

    @classmethod
    def of(cls, trigger: RegisteredTrigger) -> "KafkaSource":
        """Read the definition, with the defaults of `KafkaTriggerDefinition` for missing fields."""
        stored = trigger.definition
        return cls(
            tuple(stored.get("topics", ())),
            stored.get("group") or f"workorders-{trigger.name}",
            stored.get("kafka_connection", "kafka_default"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """One partition. An offset is None if it is unknown or does not exist yet."""

    topic: str
    partition: int
    topic_id: str
    next_offset: int | None = None
    """The ledger's first offset without a work order; None for a partition that was never planned."""
    group_offset: int | None
    last_stable: int | None
    high_watermark: int | None
    lag: int | None = None
    """Offsets up to the last stable one without a work order; at least the number of messages."""
    group_lag: int | None
    """The same for the group's committed offset, which follows the ledger after each batch."""
    status: str
    """`up to date`, `behind`, `in batch 7`, `stalled`, or another reason why the partition does not advance."""
    since: datetime | None = None
    """Start of the stall; None if the partition is not stalled."""
    attempts: int = 0
    """Attempts at the batch that holds the partition."""
    next_attempt_at: datetime | None = None
    last_error: str | None = None
    """Error of the last failed attempt."""
    batch_id: int | None = None
    """The unfinished batch that holds the partition."""
    group_relation: str | None = None
    """`ahead` of the ledger, `behind` it or `none`, if the group's offset differs; None otherwise, or if unknown."""


@dataclass(frozen=True, slots=True)
class TriggerStatus:
    """A trigger with its partitions, sorted by topic and partition."""

    name: str
    workflow: str
    group: str
    kafka_connection: str
    problem: str | None
    """One sentence on what Kafka did not answer; None if it answered everything."""
    partitions: tuple[PartitionRow, ...]
    group_notes: tuple[str, ...] = ()
    """A sentence for each difference between the consumer group and the ledger, which is right."""


def collect(
    connection: Connection, settings_of: Callable[[str], Mapping[str, Any]], trigger: str | None = None
) -> list[TriggerStatus]:
    """Return the status of every Kafka trigger in the database, or of one.

    If Kafka is unavailable, the database's part is returned. `settings_of` returns librdkafka settings by the id of a
    Kafka connection, and may raise a ConfigurationError.

    Raises:
        UnknownTriggerError: no trigger has that name.
        ConfigurationError: the trigger of that name does not read Kafka.
        psycopg.Error: the database failed.
    """
    known = _kafka_triggers(connection, trigger)
    rows = positions.status(connection, trigger)
    # Kafka is asked outside of any transaction, which must not wait for a network.
    connection.rollback()
    rows_of = {found.name: [row for row in rows if row.trigger == found.name] for found in known}
    answers = _ask_all(known, rows_of, settings_of)
    return [_status(found, rows_of[found.name], answers[found.name]) for found in known]


def source_of(connection: Connection, trigger: str) -> KafkaSource:
    """Return the topics, the group, and the connection of a Kafka trigger.

    Raises:
        UnknownTriggerError: no trigger has that name.
        ConfigurationError: it is of another type.
        psycopg.Error: the database failed.
    """
    return KafkaSource.of(_kafka_triggers(connection, trigger)[0])


def _kafka_triggers(connection: Connection, only: str | None) -> list[RegisteredTrigger]:
    """Return the Kafka triggers; if `only` is given, that one, unless it is unknown or of another type."""
    found = [row for row in work_orders.registered_triggers(connection) if only in {None, row.name}]
    if only is not None and (type_ := triggers.find(connection, only).type) != TRIGGER_TYPE:
        raise ConfigurationError(
            f"Trigger {only} is of type {type_}, which reads no partitions; see `workorders triggers`."
        )
    return [row for row in found if row.type == TRIGGER_TYPE]


def merge(rows: Iterable[PartitionStatus], answer: KafkaAnswer) -> list[PartitionRow]:
    """Merge the ledger of one trigger with Kafka's answer; pure.

    A partition that is in only one of the two has a row as well.
    """
    logs = {log.partition.topic_partition: log for log in answer.logs or ()}
    merged = []
    for row in rows:
        log = logs.pop((row.topic, row.partition), None)
        merged.append(_known(row, log, answer))
    merged += [_new(log, answer) for log in logs.values()]
    return sorted(merged, key=lambda row: (row.topic, row.partition))


def _known(row: PartitionStatus, log: PartitionOffsets | None, answer: KafkaAnswer) -> PartitionRow:
    stalled = row.status == "stalled"
    # Offsets of a re-created topic count other messages and cannot be compared.
    same = log is not None and log.partition.topic_id == row.topic_id
    group_offset = None if log is None else answer.committed.get(log.partition)
    status = _status_word(row, log, kafka_answered=answer.logs is not None)
    return PartitionRow(
        topic=row.topic,
        partition=row.partition,
        topic_id=row.topic_id,
        next_offset=row.next_offset,
        group_offset=group_offset,
        last_stable=log.last_stable if log else None,
        high_watermark=log.high_watermark if log else None,
        lag=_lag(log, row.next_offset) if same else None,
        group_lag=_lag(log, group_offset) if same else None,
        status=status,
        since=row.status_since if stalled else None,
        attempts=row.attempts,
        next_attempt_at=row.next_attempt_at if stalled else None,
        last_error=row.last_error,
        batch_id=row.batch_id,
        group_relation=_group_relation(row, log.partition, answer) if same and log is not None else None,
    )


def _group_relation(row: PartitionStatus, partition: Partition, answer: KafkaAnswer) -> str | None:
    if partition not in answer.committed:
        return None
    return group_status.relation(
        start_offset=row.start_offset, next_offset=row.next_offset, group_offset=answer.committed[partition]
    )


def _new(log: PartitionOffsets, answer: KafkaAnswer) -> PartitionRow:
    group_offset = answer.committed.get(log.partition)
    return PartitionRow(
        topic=log.partition.topic,
        partition=log.partition.partition,
        topic_id=log.partition.topic_id,
        group_offset=group_offset,
        last_stable=log.last_stable,
        high_watermark=log.high_watermark,
        group_lag=_lag(log, group_offset),
        status="not planned yet",
    )


def _lag(log: PartitionOffsets | None, offset: int | None) -> int | None:
    return None if log is None or offset is None else max(log.last_stable - offset, 0)


def _status_word(row: PartitionStatus, log: PartitionOffsets | None, *, kafka_answered: bool) -> str:
    if row.status == "stalled":
        return "stalled"
    if row.batch_id is not None:
        return f"in batch {row.batch_id}"
    if log is None:
        return "not in Kafka" if kafka_answered else "?"
    # The next batch of a partition that does not match stalls with the full error.
    return log.mismatch(row.topic_id, row.next_offset) or _progress(row, log)


def _progress(row: PartitionStatus, log: PartitionOffsets) -> str:
    if log.last_stable > row.next_offset:
        return "behind"
    if log.last_stable < log.high_watermark:
        return OPEN_TRANSACTION
    return "up to date"


def _status(trigger: RegisteredTrigger, rows: Sequence[PartitionStatus], answer: KafkaAnswer) -> TriggerStatus:
    source = KafkaSource.of(trigger)
    partitions = tuple(merge(rows, answer))
    return TriggerStatus(
        name=trigger.name,
        workflow=trigger.workflow,
        group=source.group,
        kafka_connection=source.kafka_connection,
        problem=answer.problem,
        partitions=partitions,
        group_notes=tuple(group_status.notes(source.group, _places(partitions), answer.members)),
    )


def _places(rows: Iterable[PartitionRow]) -> dict[str, list[str]]:
    """Return the partitions by the group's relation to the ledger."""
    places: dict[str, list[str]] = {}
    for row in rows:
        if row.group_relation is not None:
            places.setdefault(row.group_relation, []).append(f"{row.topic} {row.partition}")
    return places


def _ask_all(
    known: Sequence[RegisteredTrigger],
    rows_of: Mapping[str, Sequence[PartitionStatus]],
    settings_of: Callable[[str], Mapping[str, Any]],
) -> dict[str, KafkaAnswer]:
    sources = {trigger.name: KafkaSource.of(trigger) for trigger in known}
    clusters = {
        connection_id: _kafka(connection_id, settings_of)
        for connection_id in {source.kafka_connection for source in sources.values()}
    }

    async def ask_all() -> list[KafkaAnswer]:
        return await asyncio.gather(
            *(_ask(clusters[source.kafka_connection], source, rows_of[name]) for name, source in sources.items())
        )

    return dict(zip(sources, asyncio.run(ask_all()), strict=True))


def _kafka(connection_id: str, settings_of: Callable[[str], Mapping[str, Any]]) -> "KafkaAdmin | ConfigurationError":
    try:
        return open_admin(connection_id, settings_of, own=SILENT, timeout_seconds=TIMEOUT_SECONDS)
    except ConfigurationError as error:
        return error  # the ledger is shown anyway


async def _ask(
    cluster: "KafkaAdmin | ConfigurationError", source: KafkaSource, rows: Sequence[PartitionStatus]
) -> KafkaAnswer:
    if isinstance(cluster, ConfigurationError):
        return KafkaAnswer(problem=str(cluster))
    answer = KafkaAnswer()
    try:
        found = await cluster.offsets(await _partitions(cluster, source, rows))
        held = await blocked_by_transactions(
            cluster,
            {log.partition: log.last_stable for log in found},
            {log.partition: log.high_watermark for log in found},
        )
        logs = [replace(log, last_stable=held.get(log.partition, log.high_watermark)) for log in found]
        answer = KafkaAnswer(logs)
        committed = await cluster.committed(source.group, [log.partition for log in logs])
        answer = replace(answer, committed=committed)
        # Asked last, after the group's coordinator has answered.
        members = await cluster.members(source.group)
    except WorkOrdersError as error:
        return replace(answer, problem=str(error))
    there = {log.partition.topic for log in logs}
    missing = [topic for topic in source.topics if not topic.startswith(REGEX_MARK) and topic not in there]
    problem = f"Kafka does not have the topic {', '.join(missing)}." if missing else None
    return replace(answer, members=members, problem=problem)


async def _partitions(cluster: "KafkaAdmin", source: KafkaSource, rows: Sequence[PartitionStatus]) -> list[Partition]:
    """Return the existing partitions of every topic that the definition or the ledger names."""
    patterns = [topic for topic in source.topics if topic.startswith(REGEX_MARK)]
    named = {topic for topic in source.topics if not topic.startswith(REGEX_MARK)} | {row.topic for row in rows}
    matching = await cluster.partitions(patterns)
    return list(dict.fromkeys([*matching, *await cluster.existing_partitions(named)]))
