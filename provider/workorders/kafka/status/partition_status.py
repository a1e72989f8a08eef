"""Status of every partition of a trigger: the ledger, compared with Kafka."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from workorders.core import triggers
from workorders.core.exceptions import UnknownNameError
from workorders.core.postgres.connection import Connection
from workorders.kafka.exceptions import UnknownTopicError
from workorders.kafka.ledger import positions
from workorders.kafka.ledger.positions import PartitionStatus
from workorders.kafka.partitions import Partition, PartitionOffsets, PartitionState, error_at
from workorders.kafka.status.kafka_answers import KafkaAnswer, KafkaAnswers, KafkaSource

TRIGGER_TYPE = "kafka"


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
    connection: Connection, kafka: KafkaAnswers | None, trigger: str | None = None, *, with_groups: bool = True
) -> list[TriggerStatus]:
    """Return the status of every Kafka trigger in the database, or of one.

    Without `kafka`, only the part of the database is returned, as if Kafka were unavailable. Each group takes a
    separate connection.

    Raises:
        UnknownNameError: no trigger that reads Kafka has that name.
        psycopg.Error: the database failed.
    """
    return [
        TriggerStatus(**asdict(source), problem=answer.problem, partitions=tuple(merge(rows, answer)))
        for source, rows, answer in ask(connection, kafka, trigger, with_groups=with_groups)
    ]


def ask(
    connection: Connection, kafka: KafkaAnswers | None, trigger: str | None = None, *, with_groups: bool = True
) -> list[tuple[KafkaSource, Sequence[PartitionStatus], KafkaAnswer]]:
    """Return Kafka triggers as `collect`, each with the rows of its ledger and Kafka's answer about it."""
    sources = _sources(connection, trigger)
    rows = positions.status(connection, trigger)
    # Kafka is asked outside of any transaction, which must not wait for a network.
    connection.rollback()
    found = [(source, [row for row in rows if row.trigger == source.name]) for source in sources]
    known = [(source, {row.topic for row in own}) for source, own in found]
    answers = [KafkaAnswer()] * len(found) if kafka is None else kafka.ask(known, with_groups=with_groups)
    return [(source, own, answer) for (source, own), answer in zip(found, answers, strict=True)]


def source_of(connection: Connection, trigger: str) -> KafkaSource:
    """Return the topics, the group, and the connection of a Kafka trigger.

    Raises:
        UnknownNameError: no trigger has that name, or it is of another type.
        psycopg.Error: the database failed.
    """
    return _sources(connection, trigger)[0]


def _sources(connection: Connection, only: str | None) -> list[KafkaSource]:
    """Return the Kafka triggers, or one of them, with the defaults of `KafkaTriggerDefinition` for missing fields."""
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
    known = [
        _merged(Partition(row.topic, row.partition, row.topic_id), row, logs.get(place), answer)
        for place, row in ledger.items()
    ]
    new = [_merged(log.partition, None, log, answer) for place, log in logs.items() if place not in ledger]
    return sorted([*known, *new], key=lambda row: (row.topic, row.partition))


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
