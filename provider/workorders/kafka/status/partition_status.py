"""Status of every partition of a trigger: the ledger, compared with Kafka."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from workorders.core import triggers
from workorders.core.exceptions import ConfigurationError
from workorders.core.history import work_orders
from workorders.core.history.work_orders import RegisteredTrigger
from workorders.core.postgres.connection import Connection
from workorders.kafka.exceptions import UnknownTopicError
from workorders.kafka.ledger import positions
from workorders.kafka.ledger.positions import PartitionStatus
from workorders.kafka.partitions import Partition, PartitionOffsets, PartitionState, error_at
from workorders.kafka.status.kafka_answers import KafkaAnswer, KafkaAnswers, Question

TRIGGER_TYPE = "kafka"


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """The needed fields of a stored definition, which an older version of this package may have written."""

    topics: tuple[str, ...]
    consumer_group: str
    kafka_connection: str

    @classmethod
    def of(cls, trigger: RegisteredTrigger) -> "KafkaSource":
        """Read the definition, with the defaults of `KafkaTriggerDefinition` for missing fields."""
        stored = trigger.definition
        return cls(
            tuple(stored.get("topics", ())),
            stored.get("consumer_group") or f"workorders-{trigger.name}",
            stored.get("kafka_connection", "kafka_default"),
        )

    def question(self, rows: Iterable[PartitionStatus], *, with_group: bool = True) -> Question:
        """Return what Kafka is asked about the trigger, which has these rows in the ledger."""
        known, group = frozenset(row.topic for row in rows), self.consumer_group if with_group else None
        return Question(self.kafka_connection, self.topics, known, group)


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
class TriggerStatus:
    """A trigger with its partitions, sorted by topic and partition."""

    name: str
    workflow: str
    consumer_group: str
    kafka_connection: str
    problem: str | None
    """One sentence on what Kafka did not answer; None if it answered everything."""
    partitions: tuple[PartitionRow, ...]


def collect(
    connection: Connection, kafka: KafkaAnswers | None, trigger: str | None = None, *, with_groups: bool = True
) -> list[TriggerStatus]:
    """Return the status of every Kafka trigger in the database, or of one.

    Without `kafka`, only the part of the database is returned, as if Kafka were unavailable. Each group takes a
    separate connection.

    Raises:
        UnknownNameError: no trigger has that name.
        ConfigurationError: the trigger of that name does not read Kafka.
        psycopg.Error: the database failed.
    """
    return [_status(*found) for found in ask(connection, kafka, trigger, with_groups=with_groups)]


def ask(
    connection: Connection, kafka: KafkaAnswers | None, trigger: str | None = None, *, with_groups: bool = True
) -> list[tuple[RegisteredTrigger, Sequence[PartitionStatus], KafkaAnswer]]:
    """Return Kafka triggers as `collect`, each with the rows of its ledger and Kafka's answer about it."""
    known = _kafka_triggers(connection, trigger)
    rows = positions.status(connection, trigger)
    # Kafka is asked outside of any transaction, which must not wait for a network.
    connection.rollback()
    rows_of = {found.name: [row for row in rows if row.trigger == found.name] for found in known}
    asked = {found.name: KafkaSource.of(found).question(rows_of[found.name], with_group=with_groups) for found in known}
    answers = {} if kafka is None else kafka.ask(asked.values())
    return [(found, rows_of[found.name], answers.get(asked[found.name], KafkaAnswer())) for found in known]


def source_of(connection: Connection, trigger: str) -> KafkaSource:
    """Return the topics, the group, and the connection of a Kafka trigger.

    Raises:
        UnknownNameError: no trigger has that name.
        ConfigurationError: it is of another type.
        psycopg.Error: the database failed.
    """
    return KafkaSource.of(_kafka_triggers(connection, trigger)[0])


def _kafka_triggers(connection: Connection, only: str | None) -> list[RegisteredTrigger]:
    """Return the Kafka triggers; if `only` is given, that one, unless it is unknown or of another type."""
    found = [row for row in work_orders.registered_triggers(connection) if only in {None, row.name}]
    if only is not None and (type_ := triggers.find(connection, only).type) != TRIGGER_TYPE:
        raise ConfigurationError(
            f"Trigger {only} is of type {type_}, which reads no partitions; see `workorders triggers list`."
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
    state = _state(row, log, answer)
    stalled = state is PartitionState.STALLED
    # Offsets of a re-created topic count other messages and cannot be compared.
    same = log is not None and log.partition.topic_id == row.topic_id
    committed_offset = None if log is None else answer.committed.get(log.partition)
    return PartitionRow(
        topic=row.topic,
        partition=row.partition,
        topic_id=row.topic_id,
        next_offset=row.next_offset,
        committed_offset=committed_offset,
        last_stable=log.last_stable if log else None,
        high_watermark=log.high_watermark if log else None,
        lag=_lag(log, row.next_offset) if same else None,
        committed_lag=_lag(log, committed_offset) if same else None,
        state=state,
        since=row.status_since if stalled else None,
        attempts=row.attempts,
        next_attempt_at=row.next_attempt_at if stalled else None,
        last_error=row.last_error,
        batch_id=row.batch_id,
    )


def _new(log: PartitionOffsets, answer: KafkaAnswer) -> PartitionRow:
    committed_offset = answer.committed.get(log.partition)
    return PartitionRow(
        topic=log.partition.topic,
        partition=log.partition.partition,
        topic_id=log.partition.topic_id,
        committed_offset=committed_offset,
        last_stable=log.last_stable,
        high_watermark=log.high_watermark,
        committed_lag=_lag(log, committed_offset),
        state=PartitionState.NOT_PLANNED,
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
    return log.mismatch(row.topic_id, row.next_offset, row.stored_end) or _progress(row, log)


def absence(row: PartitionStatus, answer: KafkaAnswer) -> PartitionState:
    """Return why Kafka reports no offsets of a free partition."""
    if answer.logs is None:
        return PartitionState.UNKNOWN
    error = error_at(answer.errors, Partition(row.topic, row.partition, row.topic_id))
    if isinstance(error, UnknownTopicError):
        return PartitionState.TOPIC_DELETED
    return PartitionState.NOT_IN_KAFKA if error is None else PartitionState.UNKNOWN


def _progress(row: PartitionStatus, log: PartitionOffsets) -> PartitionState:
    if log.last_stable > row.next_offset:
        return PartitionState.BEHIND
    if log.last_stable < log.high_watermark:
        return PartitionState.OPEN_TRANSACTION
    return PartitionState.UP_TO_DATE


def _status(trigger: RegisteredTrigger, rows: Sequence[PartitionStatus], answer: KafkaAnswer) -> TriggerStatus:
    source = KafkaSource.of(trigger)
    return TriggerStatus(
        name=trigger.name,
        workflow=trigger.workflow,
        consumer_group=source.consumer_group,
        kafka_connection=source.kafka_connection,
        problem=answer.problem,
        partitions=tuple(merge(rows, answer)),
    )
