"""The ledger moves over what is finished: ranges, and the virtual partitions that a range may be cut into.

Over a range that is not cut, it moves in the transaction that writes it. A virtual partition is committed under a lock
that others share, so many are written at once, and the ledger moves in a separate short transaction afterwards. A
crash between the two leaves the ledger behind what is stored; the next attempt moves it first.
"""

from collections.abc import Iterable
from dataclasses import asdict

from workorders.core.creation.work_orders import Created
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.kafka.exceptions import FencedError, LedgerConflictError
from workorders.kafka.partitions import OffsetRange, Partition, VirtualPartition

_QUERIES = load_queries("workorders.kafka.ledger", "sql/virtual_partitions.sql")


def insert(connection: Connection, batch_id: int, virtual_partitions: Iterable[VirtualPartition]) -> None:
    """Record how ranges of a batch are cut, in the transaction that records the batch."""
    for range_ in virtual_partitions:
        connection.execute(_QUERIES["insert"], {**place(batch_id, range_), "range_start": range_.cut_from.start})


def lock(connection: Connection, batch_id: int, range_: VirtualPartition) -> Created | None:
    """Lock a virtual partition until the transaction ends.

    Returns:
        The counts with which it was finished before; None if it is not finished.

    Raises:
        LedgerConflictError: the batch does not have it.
    """
    row = connection.execute(_QUERIES["lock"], place(batch_id, range_)).fetchone()
    if row is None:
        raise LedgerConflictError(
            f"Batch {batch_id}: {range_} was not planned; nothing was committed there. Save this log and report it, "
            f"because no sequence of events leads here."
        )
    is_finished, created, rejected, existing, filtered = row
    return Created(created, rejected, existing, filtered=filtered) if is_finished else None


def finish(connection: Connection, batch_id: int, range_: VirtualPartition, created: Created) -> None:
    """Record that a virtual partition was ingested; the caller has locked it and knows that it was not finished."""
    connection.execute(_QUERIES["finish"], {**place(batch_id, range_), **asdict(created)})


def finish_range(
    connection: Connection,
    batch_id: int,
    range_: OffsetRange,
    epoch: int,
    created: Created,
    *,
    mean_message_bytes: float | None = None,
) -> None:
    """Record that a range that is not cut was ingested, and move the ledger over it.

    Raises:
        FencedError: a newer attempt has begun, another one finished the range before, or a decision superseded it; the
            caller must roll back.
    """
    values = {**place(batch_id, range_), "epoch": epoch, "mean_message_bytes": mean_message_bytes}
    if connection.execute(_QUERIES["finish_range"], {**values, **asdict(created)}).rowcount != 1:
        raise FencedError(
            f"Batch {batch_id}: {range_} was finished by another attempt; nothing was committed here. There is nothing "
            f"to do: `workorders batches show {batch_id}` shows how it ended."
        )


def advance(
    connection: Connection,
    batch_id: int,
    range_: OffsetRange,
    epoch: int,
    mean_message_bytes: float | None = None,
) -> None:
    """Move the ledger to the end of the virtual partitions that are finished without a gap, and finish a whole range.

    Changes nothing if a newer attempt has begun, which moves the ledger itself.
    """
    values = {**place(batch_id, range_), "epoch": epoch, "mean_message_bytes": mean_message_bytes}
    with connection.transaction():
        connection.execute(_QUERIES["lock_ledger"], values)
        connection.execute(_QUERIES["advance"], values)


def advance_all(connection: Connection, batch_id: int, epoch: int) -> None:
    """Do what `advance` does for each unfinished range of a batch that is cut."""
    for topic, partition, start in connection.execute(_QUERIES["unfinished_ranges"], {"batch_id": batch_id}).fetchall():
        advance(connection, batch_id, OffsetRange(Partition(topic, partition, ""), start, start), epoch)


def place(batch_id: int, range_: OffsetRange) -> dict[str, object]:
    """Return the arguments of queries by which they find a range of a batch, or a virtual partition."""
    topic, partition = range_.partition.topic_partition
    offsets = {"start_offset": range_.start, "end_offset": range_.end}
    return {"batch_id": batch_id, "topic": topic, "partition": partition, **offsets}
