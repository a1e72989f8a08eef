"""Batches: the offset ranges of one ingest Dag run. Each range is recorded before it is read, and never changed.

A batch grows: while messages arrive, its attempt adds ranges under a lease, in the batch's row and by the database's
clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from workorders import dag_ids
from workorders.core import triggers
from workorders.core.postgres.connection import Connection, fetch_row, list_rows
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger
from workorders.kafka.exceptions import BatchExpiredError, ForeignBatchError, UnknownBatchError
from workorders.kafka.ledger import virtual_partitions
from workorders.kafka.partitions import OffsetRange, Partition, VirtualPartition

_QUERIES = load_queries("workorders.kafka.ledger", "sql/batches.sql")

LEASE_SECONDS: Final = 15.0
"""How long the listener leaves a trigger's free partitions to a growing batch after its last sign of life. It covers
the start of a task and of a JVM, and bounds how long a frozen process can delay other partitions."""
_RANGE_COLUMNS: Final = 16
"""Of a row of the query `ranges`; the others are those of a virtual partition."""
_STEP: Final = 1_000
"""Batches that one step of retention deletes."""


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
    of_earlier_log: bool = False
    """Whether the ledger follows another log since: the topic was re-created, or its log was truncated."""
    filtered: int = 0
    """Messages that the batch's filter left out of the first ingest; they have no work order."""
    stored_end: int = 0
    """Highest end of what is stored of the log that the ledger follows."""
    cluster_id: str | None = None
    """The cluster that the ledger follows; None if it is unknown."""
    virtual_partitions: tuple["BatchRange", ...] = ()
    """What the range is cut into, by offsets; empty if it is not cut."""

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
        return tuple(virtual for virtual in self.virtual_partitions if not virtual.finished)

    @property
    def progress(self) -> str | None:
        """How many of the virtual partitions are stored, as text; None for a range that is not cut."""
        stored = sum(virtual.finished for virtual in self.virtual_partitions)
        count = len(self.virtual_partitions)
        return f"{stored} of {count} virtual partitions are stored" if count else None

    @property
    def messages(self) -> int | None:
        """Number of messages that the first ingest found and took; None while unfinished."""
        return (self.created or 0) + (self.rejected or 0) + self.existing if self.finished else None


@dataclass(frozen=True, slots=True)
class Batch:
    """A planned batch with its ranges, sorted by topic, partition, and offset."""

    id: int
    trigger: Trigger
    definition: Mapping[str, Any]
    """The trigger's current definition, which may be newer than the batch, with the filter of the batch."""
    planned_at: datetime
    ranges: tuple[BatchRange, ...]
    logs: tuple[str, ...] = ()
    """Ids of all topics that the trigger reads now with their generations, sorted; they change when offsets mean other
    messages."""
    workflow_definition: str = "{}"
    """Definition of the workflow as JSON."""

    @property
    def run_id(self) -> str:
        """Return the id of the ingest run that stands for the batch."""
        return dag_ids.batch(self.id)

    @property
    def label(self) -> str:
        """Return the ranges as text, which is the note in Airflow: `orders 0 [100, 2100), orders 1 [7, 9)`."""
        return ", ".join(str(range_.range) for range_ in self.ranges)

    @property
    def unfinished(self) -> tuple[BatchRange, ...]:
        """Return the ranges that wait to be ingested."""
        return tuple(range_ for range_ in self.ranges if range_.unfinished)

    @property
    def finished(self) -> tuple[BatchRange, ...]:
        """Return the ranges whose messages all have work orders."""
        return tuple(range_ for range_ in self.ranges if range_.finished)

    @property
    def supersessions(self) -> tuple[str, ...]:
        """One sentence for each range that an operator's decision superseded."""
        return tuple(
            f"{range_.range} was superseded by decision {range_.superseded_by} and is not ingested; "
            f"`workorders decisions list` shows who decided and why."
            for range_ in self.ranges
            if range_.superseded
        )


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """A batch in one line."""

    id: int
    trigger: str
    planned_at: datetime
    finished_at: datetime | None
    partitions: int
    created: int
    rejected: int
    filtered: int

    @property
    def run_id(self) -> str:
        """Return the id of the ingest run that stands for the batch."""
        return dag_ids.batch(self.id)


@dataclass(frozen=True, slots=True)
class LastPlan:
    """What a planner asks of a trigger before it plans."""

    seconds_ago: float | None
    """Seconds since the trigger's last range was planned, by the database's clock; None if none was."""
    is_open: bool
    """Whether a batch of the trigger grows: the free partitions are left to it."""
    growing: int = 0
    """Number of batches that grow, of all triggers."""


def create(
    connection: Connection,
    trigger: Trigger,
    ranges: Sequence[OffsetRange],
    cut: Iterable[VirtualPartition] = (),
    *,
    lease_seconds: float | None = None,
) -> int:
    """Record a batch in the caller's transaction, and return its number.

    The free partitions are left to the batch's first attempt for `lease_seconds`; None if it does not grow.

    Raises:
        psycopg.errors.UniqueViolation: a partition has an unfinished range already.
    """
    values = {"trigger_id": trigger.id, "lease_seconds": lease_seconds}
    batch_id = int(fetch_row(connection, _QUERIES["insert_batch"], values)[0])
    add_ranges(connection, batch_id, trigger, ranges, cut)
    return batch_id


def add_ranges(
    connection: Connection,
    batch_id: int,
    trigger: Trigger,
    ranges: Iterable[OffsetRange],
    cut: Iterable[VirtualPartition] = (),
) -> None:
    """Record ranges of a batch, with all virtual partitions of those that are cut; see `create`."""
    for range_ in ranges:
        own = {"trigger_id": trigger.id, "topic_id": range_.partition.topic_id}
        connection.execute(_QUERIES["insert_range"], {**virtual_partitions.place(batch_id, range_), **own})
    virtual_partitions.insert(connection, batch_id, cut)


def renew_lease(connection: Connection, batch_id: int, epoch: int) -> bool:
    """Let the listener leave the free partitions to a batch for `LEASE_SECONDS`, and return whether the batch grows.

    It does not if a newer attempt has begun, the lease was closed, or an older batch of the trigger grows. The batch's
    row is locked until the transaction ends.
    """
    values = {"batch_id": batch_id, "epoch": epoch, "lease_seconds": LEASE_SECONDS}
    return connection.execute(_QUERIES["renew_lease"], values).rowcount == 1


def close_lease(connection: Connection, batch_id: int) -> None:
    """Let the running attempt at a batch add no further range; it ingests what is recorded."""
    connection.execute(_QUERIES["close_lease"], {"batch_id": batch_id})


def end_growth(connection: Connection, batch_id: int, epoch: int) -> None:
    """End the lease of an attempt that adds no further range, so that the listener plans again."""
    connection.execute(_QUERIES["end_growth"], {"batch_id": batch_id, "epoch": epoch})


def join_ranges(connection: Connection, batch_id: int) -> None:
    """Make finished ranges that follow one another one range: a steady trigger would add a row every second."""
    connection.execute(_QUERIES["join_ranges"], {"batch_id": batch_id})


def is_unchanged(connection: Connection, batch: Batch) -> bool:
    """Return whether the definitions and logs are still those of a batch that was loaded, filter included."""
    values = {
        "trigger_id": batch.trigger.id,
        "definition": Jsonb(batch.definition),
        "workflow": batch.workflow_definition,
        "logs": list(batch.logs),
    }
    return bool(fetch_row(connection, _QUERIES["is_unchanged"], values)[0])


def load(connection: Connection, batch_id: int) -> Batch:
    """Return the batch of that number.

    Raises:
        UnknownBatchError: there is none.
    """
    # The ranges first: a batch that retention deletes between the two queries is then missing, and does not seem to be
    # empty.
    ranges = load_ranges(connection, batch_id)
    row = connection.execute(_QUERIES["batch"], {"batch_id": batch_id}).fetchone()
    if row is None:
        raise _unknown(batch_id)
    planned_at, name, definition, logs, workflow = row
    trigger = triggers.find(connection, name)
    return Batch(batch_id, trigger, definition, planned_at, ranges, tuple(logs), workflow)


def load_ranges(connection: Connection, batch_id: int, *, unfinished: bool = False) -> tuple[BatchRange, ...]:
    """Return the ranges of a batch with their virtual partitions, or only its unfinished ranges."""
    rows = connection.execute(_QUERIES["ranges"], {"batch_id": batch_id, "unfinished": unfinished}).fetchall()
    ranges = groupby(rows, key=lambda row: row[:_RANGE_COLUMNS])
    return tuple(_range(columns, [row[_RANGE_COLUMNS:] for row in joined]) for columns, joined in ranges)


def _range(columns: Sequence[Any], cut: Iterable[Sequence[Any]]) -> BatchRange:
    """Return a range with its virtual partitions; a range that is not cut has one, whose columns are NULL."""
    topic, partition, topic_id, start, end, *results = columns
    range_ = BatchRange(OffsetRange(Partition(topic, partition, topic_id), start, end), *results)
    virtual_partitions = tuple(
        replace(
            range_,
            range=VirtualPartition(range_.range.partition, start, end, range_.range),
            finished_at=finished_at,
            created=created,
            rejected=rejected,
            existing=existing or 0,
            filtered=filtered or 0,
        )
        for start, end, finished_at, created, rejected, existing, filtered in cut
        if start is not None
    )
    return replace(range_, virtual_partitions=virtual_partitions)


def _unknown(batch_id: int) -> UnknownBatchError:
    return UnknownBatchError(
        f"There is no batch {batch_id} in this database; nothing was done. Retention may have deleted it: its work "
        f"orders are then older than the workflow keeps them. See `workorders batches list`."
    )


def require_own(connection: Connection, batch_id: int, trigger: str) -> int:
    """Return how many ranges of a batch are unfinished, if it belongs to this trigger.

    A user who may start the ingest runs of one trigger must not fence, ingest or commit for another one.

    Raises:
        UnknownBatchError: there is none.
        ForeignBatchError: it is another trigger's.
    """
    row = connection.execute(_QUERIES["owner"], {"batch_id": batch_id}).fetchone()
    if row is None:
        raise _unknown(batch_id)
    owner, unfinished = row
    if owner != trigger:
        raise ForeignBatchError(
            f"Batch {batch_id} belongs to trigger {owner}, and this run to trigger {trigger}. Nothing was read or "
            f"written for the batch; clear its run in the ingest Dag of {owner} instead."
        )
    return int(unfinished)


def require_kept(connection: Connection, batch_id: int) -> None:
    """Refuse a replay if retention may have deleted a work order of the batch.

    The work orders of a batch are created after it is planned, except those that its ranges had before: their age is
    unknown.

    Raises:
        BatchExpiredError: it may have; the caller must roll back.
        UnknownBatchError: it has deleted the batch, and deletes the work orders next; the caller must roll back.
    """
    row = connection.execute(_QUERIES["kept"], {"batch_id": batch_id}).fetchone()
    if row is None:
        raise _unknown(batch_id)
    workflow, days, is_young, is_own = row
    if is_young and is_own:
        return
    limit = f"the {days:g} days for which workflow {workflow} keeps work orders"
    raise BatchExpiredError(
        f"Batch {batch_id} was not replayed, because "
        + (f"some of its messages had work orders that may exceed {limit}" if is_young else f"it is older than {limit}")
        + ": what retention deleted would be created again. Nothing was changed. To create it again anyway, set "
        "the ledger back with `workorders resolve seek`."
    )


def begin_attempt(connection: Connection, batch_id: int, *, after: int) -> int:
    """Begin a new attempt and clear the errors of all ranges, so that later errors are this attempt's.

    Returns:
        The attempt's epoch, which is higher than that of the attempt before and than `after`.

    Raises:
        UnknownBatchError: there is no batch of this number.
    """
    values = {"batch_id": batch_id, "after": after, "lease_seconds": LEASE_SECONDS}
    row = connection.execute(_QUERIES["begin_attempt"], values).fetchone()
    if row is None:
        raise _unknown(batch_id)
    connection.execute(_QUERIES["clear_errors"], {"batch_id": batch_id})
    return int(row[0])


def write_error(
    connection: Connection, batch_id: int, range_: OffsetRange, *, epoch: int, error: str, is_replay: bool
) -> None:
    """Record why a range failed, unless a newer attempt has begun, or this one has finished the range after all."""
    arguments = {"epoch": epoch, "error": error, "is_replay": is_replay}
    connection.execute(_QUERIES["write_error"], {**virtual_partitions.place(batch_id, range_), **arguments})


def list_unfinished(connection: Connection, trigger: str, *, seconds: float = 0.0) -> list[int]:
    """Return the numbers of the unfinished batches, planned so long ago, whose next try is due, oldest first."""
    return [id_ for (id_,) in connection.execute(_QUERIES["unfinished"], {"trigger": trigger, "seconds": seconds})]


def last_plan(connection: Connection, trigger: str) -> LastPlan:
    """Return when the trigger planned last, and whether a batch of it grows."""
    row = connection.execute(_QUERIES["last_plan"], {"trigger": trigger}).fetchone()
    return LastPlan(*row) if row else LastPlan(None, is_open=False)


def delete_expired(connection: Connection, now: datetime) -> bool:
    """Delete some batches that are older than their workflows keep any work order; return whether there may be more."""
    return connection.execute(_QUERIES["delete_expired"], {"now": now, "limit": _STEP}).rowcount == _STEP


def summaries(
    connection: Connection, trigger: str | None = None, *, before: int | None = None, limit: int = 50
) -> list[BatchSummary]:
    """Return batches, newest first; a page ends before the batch with the number `before`."""
    asked = {"trigger": trigger, "before": before, "limit": limit}
    return list_rows(connection, BatchSummary, _QUERIES["batches"], asked)


def find_last_id(connection: Connection, trigger: Trigger, stream: str, before: int) -> UUID | None:
    """Return the id of the last work order before an offset of a stream; None if there is none."""
    arguments = {"trigger_id": trigger.id, "stream": stream, "before": before}
    row = connection.execute(_QUERIES["last_id"], arguments).fetchone()
    return None if row is None else row[0]


def count_work_orders(connection: Connection, trigger: Trigger, stream: str, range_: OffsetRange) -> int:
    """Return the number of work orders of the offsets of a stream."""
    offsets = {"start_offset": range_.start, "end_offset": range_.end}
    found = fetch_row(connection, _QUERIES["count_in_range"], {"trigger_id": trigger.id, "stream": stream, **offsets})
    return int(found[0])
