"""Batches: immutable lists of offset ranges, recorded before they are read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row

from workorders.core import triggers
from workorders.core.creation.work_orders import Created
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger
from workorders.kafka.exceptions import FencedError, ForeignBatchError, UnknownBatchError
from workorders.kafka.ledger import virtual_partitions
from workorders.kafka.partitions import OffsetRange, Partition, VirtualPartition

_QUERIES = load_queries("workorders.kafka.ledger", "sql/batches.sql")


@dataclass(frozen=True, slots=True)
class BatchRange:
    """One range of a batch, with its result."""

    range: OffsetRange
    finished_at: datetime | None
    created: int | None
    """Accepted work orders that the first ingest created; None while unfinished."""
    rejected: int | None
    """Rejected work orders that the first ingest created; None while unfinished."""
    last_error: str | None = None
    """Error of the newest attempt, one sentence; None if it did not fail."""
    existing: int = 0
    """Messages that had a work order before the first ingest, as after an operator set the ledger back."""
    superseded_by: int | None = None
    """Number of the decision that superseded the range; None if none did."""
    generation: int = 0
    """Log of the topic that the offsets belong to; see `positions.stream_name`."""
    cut_since: bool | None = False
    """Whether the log was truncated since, so that these offsets may mean other messages now."""
    filtered: int = 0
    """Messages that the batch's filter left out of the first ingest; they have no work order."""
    virtual_partitions: tuple["BatchRange", ...] = ()
    """The parts that the range is cut into, by their offsets; empty if it is not cut."""

    @property
    def finished(self) -> bool:
        """Whether every message of the range has a work order, so that a further ingest is a replay."""
        return self.finished_at is not None

    @property
    def superseded(self) -> bool:
        """Whether an operator's decision superseded the range: it is never ingested again."""
        return self.superseded_by is not None

    @property
    def unfinished(self) -> bool:
        """Whether the range waits to be ingested."""
        return not self.finished and not self.superseded

    @property
    def to_ingest(self) -> tuple["BatchRange", ...]:
        """Return what an attempt reads: the unfinished virtual partitions, or the range itself, as for a replay."""
        if self.finished or not self.virtual_partitions:
            return (self,)
        return tuple(part for part in self.virtual_partitions if not part.finished)

    @property
    def progress(self) -> str | None:
        """How many of the virtual partitions are stored, as text; None for a range that is not cut."""
        stored = sum(part.finished for part in self.virtual_partitions)
        count = len(self.virtual_partitions)
        return f"{stored} of {count} virtual partitions are stored" if count else None

    @property
    def messages(self) -> int | None:
        """Number of messages that the first ingest found and took; None while unfinished."""
        return (self.created or 0) + (self.rejected or 0) + self.existing if self.finished else None


@dataclass(frozen=True, slots=True)
class Batch:
    """A planned batch with its ranges, sorted by topic and partition."""

    id: int
    trigger: Trigger
    definition: Mapping[str, Any]
    """The trigger's current definition, which may be newer than the batch, with the filter of the batch."""
    planned_at: datetime
    handed_over_at: datetime | None
    ranges: tuple[BatchRange, ...]
    taken_by: int | None = None
    """Number of the batch whose task planned and ingested this one as well; None if the listener planned it."""
    first_id: int | None = None
    """First of the trigger's batches that were merged into this one, which has the last number; None if none were."""
    logs: tuple[str, ...] = ()
    """Ids of all topics that the trigger reads now with their generations, sorted; they change when offsets mean other
    messages."""

    @property
    def run_id(self) -> str:
        """Return the id of the ingest run that stands for the batch; of a merged one, that of the first batch in it."""
        return run_id(self.id if self.first_id is None else self.first_id)

    @property
    def label(self) -> str:
        """Return the ranges as text, which is the note in Airflow: `orders 0 [100, 2100), orders 1 [7, 9)`."""
        return ", ".join(str(part.range) for part in self.ranges)

    @property
    def unfinished(self) -> tuple[BatchRange, ...]:
        """Return the ranges that wait to be ingested."""
        return tuple(part for part in self.ranges if part.unfinished)

    @property
    def finished(self) -> tuple[BatchRange, ...]:
        """Return the ranges whose messages all have work orders."""
        return tuple(part for part in self.ranges if part.finished)

    @property
    def supersessions(self) -> tuple[str, ...]:
        """One sentence for each range that an operator's decision superseded."""
        return tuple(
            f"{part.range} was superseded by decision {part.superseded_by} and is not ingested; "
            f"`workorders decisions` shows who decided and why."
            for part in self.ranges
            if part.superseded
        )


@dataclass(frozen=True, slots=True)
class TracedMessage:
    """A message whose sender gave a trace, and its work order."""

    work_order_id: UUID
    topic: str
    partition: int
    offset: int
    request: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UnfinishedBatch:
    """A batch with at least one unfinished range."""

    id: int
    handed_over: bool
    """Whether its ingest run was seen once; it may have been deleted, or marked as ended, since."""


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """A batch in one line."""

    id: int
    first_id: int | None
    """As in `Batch`."""
    trigger: str
    planned_at: datetime
    handed_over_at: datetime | None
    finished_at: datetime | None
    partitions: int
    created: int
    rejected: int
    filtered: int


def run_id(batch_id: int) -> str:
    """Return the id of the ingest run of a batch: derived from it, so that a second dispatch starts no other."""
    return f"batch_{batch_id}"


def possible_run_ids(batch: Batch | BatchSummary) -> tuple[str, ...]:
    """Return the ids that the ingest run of a batch can have, the most likely first.

    What a task merged with its own batch has the run of that batch, which is the first one. What it merged besides, and
    what retention merged, has a run of the last one.
    """
    return (run_id(batch.id),) if batch.first_id is None else (run_id(batch.first_id), run_id(batch.id))


def create(
    connection: Connection,
    trigger: Trigger,
    ranges: Sequence[OffsetRange],
    parts: Iterable[VirtualPartition] = (),
    *,
    taken_by: int | None = None,
) -> int:
    """Record a batch, and return its number.

    Args:
        connection: where the caller's transaction is.
        trigger: the trigger.
        ranges: at most one for each partition.
        parts: all virtual partitions of the ranges that are cut.
        taken_by: the batch whose task takes this one; None if the listener plans it.

    Raises:
        psycopg.errors.UniqueViolation: a partition is in an unfinished batch already.
    """
    values = {"trigger_id": trigger.id, "taken_by": taken_by}
    batch_id = int(fetch_row(connection, _QUERIES["insert_batch"], values)[0])
    for range_ in ranges:
        place = {**_place(batch_id, range_), "trigger_id": trigger.id, "topic_id": range_.partition.topic_id}
        connection.execute(_QUERIES["insert_range"], {**place, "start_offset": range_.start, "end_offset": range_.end})
    virtual_partitions.insert(connection, batch_id, parts)
    return batch_id


def load(connection: Connection, batch_id: int, trigger: str | None = None) -> Batch:
    """Return the batch of that number, or the one that it was merged into, which has another number.

    Args:
        connection: the database.
        batch_id: the number.
        trigger: name of the trigger whose merged batch is meant if those of several may contain the number.

    Raises:
        UnknownBatchError: there is none, or the number may belong to merged batches of several triggers.
    """
    # The ranges first: a batch that is merged between the two queries is then missing, and does not seem to be empty.
    parts = virtual_partitions.rows_of_batch(connection, batch_id)
    ranges = tuple(
        _cut(BatchRange(OffsetRange(Partition(topic, partition, topic_id), start, end), *results), parts)
        for topic, partition, topic_id, start, end, *results in connection.execute(
            _QUERIES["ranges"], {"batch_id": batch_id}
        )
    )
    row = connection.execute(_QUERIES["batch"], {"batch_id": batch_id}).fetchone()
    if row is None:
        return load(connection, _merged_into(connection, batch_id, trigger))
    id_, planned_at, handed_over_at, taken_by, first_id, name, definition, logs = row
    found = triggers.find(connection, name)
    return Batch(id_, found, definition, planned_at, handed_over_at, ranges, taken_by, first_id, tuple(logs))


def _merged_into(connection: Connection, batch_id: int, trigger: str | None) -> int:
    """Return the number of the merged batch that has this number among its own."""
    found = connection.execute(_QUERIES["merged_into"], {"batch_id": batch_id}).fetchall()
    if not found:
        raise UnknownBatchError(_unknown(batch_id))
    own = [id_ for id_, name in found if name == trigger] or [id_ for id_, _ in found]
    if len(own) > 1:
        candidates = ", ".join(f"{id_} of {name}" for id_, name in found)
        raise UnknownBatchError(
            f"Batch {batch_id} was merged into a later one of its trigger, and is in one of these: {candidates}; "
            f"nothing was done. Give the number of the one that you mean."
        )
    return int(own[0])


def _cut(range_: BatchRange, parts: Mapping[tuple[str, int], Sequence[Sequence[Any]]]) -> BatchRange:
    """Return a range with its virtual partitions."""
    planned = range_.range
    rows = parts.get(planned.partition.topic_partition, ())
    return replace(
        range_,
        virtual_partitions=tuple(
            BatchRange(
                VirtualPartition(planned.partition, start, end, planned),
                finished_at,
                created,
                rejected,
                existing=existing or 0,
                generation=range_.generation,
                filtered=filtered or 0,
            )
            for start, end, finished_at, created, rejected, existing, filtered in rows
        ),
    )


def load_own(connection: Connection, batch_id: int, trigger: str) -> Batch:
    """Return the batch of that number, or the one that it was merged into, if it belongs to this trigger.

    A user who may start the ingest runs of one trigger must not fence, ingest or commit for another one.

    Raises:
        UnknownBatchError: there is none.
        ForeignBatchError: it is another trigger's.
    """
    batch = load(connection, batch_id, trigger)
    if batch.trigger.name != trigger:
        raise ForeignBatchError(
            f"Batch {batch_id} belongs to trigger {batch.trigger.name}, and this run to trigger {trigger}. Nothing was "
            f"read or written for the batch; clear its run in the ingest Dag of {batch.trigger.name} instead."
        )
    return batch


def finish(connection: Connection, batch_id: int, range_: OffsetRange, created: Created) -> None:
    """Record that a range was ingested, once.

    Raises:
        FencedError: another attempt finished it before, or a decision superseded it; the caller must roll back.
    """
    finished = connection.execute(
        _QUERIES["finish_range"],
        {
            **_place(batch_id, range_),
            "created": created.created,
            "rejected": created.rejected,
            "existing": created.existing,
            "filtered": created.filtered,
        },
    ).rowcount
    if finished != 1:
        raise FencedError(
            f"Batch {batch_id}: {range_} was finished by another attempt; nothing was committed here. There is nothing "
            f"to do: `workorders batches show {batch_id}` shows how it ended."
        )


def created_by_task(connection: Connection, trigger: str, batch_id: int) -> tuple[int, int]:
    """Return how many work orders were created and rejected in a batch, and in those that its task took with it."""
    created, rejected = fetch_row(connection, _QUERIES["created_by_task"], {"trigger": trigger, "batch_id": batch_id})
    return int(created), int(rejected)


def first_messages_of_attempt(lock: Connection, trigger: str, batch_id: int, *, limit: int) -> list[TracedMessage]:
    """Return those of the first messages of an attempt whose senders gave a trace.

    Args:
        lock: the connection with the attempt's lock, whose transaction began with the attempt.
        trigger: name of the trigger.
        batch_id: number of the batch.
        limit: how many messages are searched.
    """
    arguments = {"trigger": trigger, "batch_id": batch_id, "limit": limit}
    return [TracedMessage(*row) for row in lock.execute(_QUERIES["first_messages_of_attempt"], arguments)]


def begin_attempt(connection: Connection, batch_id: int, *, after: int) -> int:
    """Begin a new attempt and clear the errors of all ranges, so that later errors are this attempt's.

    Returns:
        The attempt's epoch, which is higher than that of the attempt before and than `after`.

    Raises:
        UnknownBatchError: there is no batch of exactly this number.
    """
    row = connection.execute(_QUERIES["begin_attempt"], {"batch_id": batch_id, "after": after}).fetchone()
    if row is None:
        raise UnknownBatchError(_unknown(batch_id))
    connection.execute(_QUERIES["clear_errors"], {"batch_id": batch_id})
    return int(row[0])


def write_error(connection: Connection, batch_id: int, range_: OffsetRange, *, epoch: int, error: str) -> None:
    """Record why a range failed, unless a newer attempt has begun."""
    connection.execute(_QUERIES["write_error"], {**_place(batch_id, range_), "epoch": epoch, "error": error})


def unfinished(connection: Connection, trigger: str, *, older_than_seconds: float = 0.0) -> list[UnfinishedBatch]:
    """Return the unfinished batches whose next try is due, oldest first; none that a running task took."""
    arguments = {"trigger": trigger, "seconds": older_than_seconds}
    return unfinished_from(connection.execute(_QUERIES["unfinished"], arguments))


def unfinished_from(rows: Iterable[Sequence[Any]]) -> list[UnfinishedBatch]:
    """Return the batches in rows of the query `unfinished`, which the triggerer runs asynchronously."""
    return [UnfinishedBatch(*row) for row in rows]


def finished_without_run(connection: Connection, trigger: str) -> list[int]:
    """Return the finished batches whose ingest run the task that took them did not start before it ended."""
    return [batch_id for (batch_id,) in connection.execute(_QUERIES["finished_without_run"], {"trigger": trigger})]


def taken_without_run(connection: Connection, taker: int) -> list[int]:
    """Return the batches that the task of one took and whose ingest runs were not started."""
    return [batch_id for (batch_id,) in connection.execute(_QUERIES["taken_without_run"], {"taker": taker})]


def mark_handed_over(connection: Connection, batch_ids: Iterable[int]) -> None:
    """Record that the ingest runs of these batches exist."""
    connection.execute(_QUERIES["mark_handed_over"], {"batch_ids": list(batch_ids)})


def seconds_since_last(connection: Connection, trigger: str) -> float | None:
    """Return the seconds since the trigger's last batch was planned, by the database's clock; None if none was."""
    row = connection.execute(_QUERIES["newest_batch"], {"trigger": trigger}).fetchone()
    return None if row is None else float(row[0])


def summaries(
    connection: Connection, trigger: str | None = None, *, before: int | None = None, limit: int = 50
) -> list[BatchSummary]:
    """Return batches, newest first; a page ends before the batch with the number `before`."""
    with connection.cursor(row_factory=class_row(BatchSummary)) as cursor:
        return cursor.execute(_QUERIES["batches"], {"trigger": trigger, "before": before, "limit": limit}).fetchall()


def last_planned(connection: Connection) -> dict[str, datetime]:
    """Return when the newest batch of each trigger was planned, by the trigger's name."""
    return dict(connection.execute(_QUERIES["last_planned"]).fetchall())


def has_work_orders(connection: Connection, trigger: Trigger, stream: str, range_: OffsetRange) -> bool:
    """Return whether any message of a range has a work order already, or had one that retention deleted."""
    return count_work_orders(connection, trigger, stream, range_.start, range_.end) > 0


def count_work_orders(connection: Connection, trigger: Trigger, stream: str, start: int, end: int) -> int:
    """Return the number of work orders in `[start, end)` of a stream, those that retention deleted included."""
    range_ = {"trigger_id": trigger.id, "stream": stream, "start_offset": start, "end_offset": end}
    return int(fetch_row(connection, _QUERIES["count_in_range"], range_)[0])


def _unknown(batch_id: int) -> str:
    return f"There is no batch {batch_id} in this database; see `workorders batches list`."


def _place(batch_id: int, range_: OffsetRange) -> dict[str, object]:
    return {"batch_id": batch_id, "topic": range_.partition.topic, "partition": range_.partition.partition}
