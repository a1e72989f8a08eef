"""Batches and attempts without Kafka, and what the tables contain of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any, NoReturn

from workorders.core.creation.work_orders import Created
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.triggers import Trigger
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ledger import batches, positions, virtual_partitions
from workorders.kafka.ledger.positions import PartitionStatus
from workorders.kafka.partitions import OffsetRange, Partition, VirtualPartition


def partition_of(topic: str, number: int = 0) -> Partition:
    """Return a partition of a topic that no broker knows."""
    return Partition(topic, number, "topic-id")


def plan(
    connection: Connection,
    trigger: Trigger,
    *ranges: OffsetRange,
    cut_at: Sequence[int] = (),
) -> int:
    """Record a batch, with a ledger at the start of each range, and commit.

    Each range may be cut at some offsets.
    """
    known = positions.positions(connection, trigger.name)
    for range_ in ranges:
        if range_.partition not in known:
            positions.insert(connection, trigger, range_.partition, range_.start)
    parts = [
        VirtualPartition(range_.partition, start, end, range_)
        for range_ in ranges
        for start, end in pairwise([range_.start, *cut_at, range_.end])
        if cut_at
    ]
    batch_id = batches.create(connection, trigger, ranges, parts)
    connection.commit()
    return batch_id


def finish(connection: Connection, batch_id: int, range_: OffsetRange, created: Created | None = None) -> None:
    """Finish a range of a batch as an attempt of the ledger's epoch does, wherever the ledger was."""
    place = {"batch_id": batch_id, "topic": range_.partition.topic, "partition": range_.partition.partition}
    (epoch,) = fetch_row(
        connection,
        """
        UPDATE workorders.kafka_ledger AS ledger SET next_offset = %(start)s
        FROM workorders.kafka_batches AS batches
        WHERE batches.id = %(batch_id)s AND ledger.trigger_id = batches.trigger_id
            AND (ledger.topic, ledger.partition) = (%(topic)s, %(partition)s)
        RETURNING ledger.epoch
        """,
        {**place, "start": range_.start},
    )
    virtual_partitions.finish_range(connection, batch_id, range_, epoch, created or Created(range_.end - range_.start))


def waits_for_a_lock(connection: Connection) -> bool:
    """Return whether another session of this database waits for a row that another session holds."""
    query = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    found = connection.execute(query).fetchone()
    connection.rollback()
    return found is not None


def without_breaker(connection: Connection, trigger: Trigger) -> None:
    """Let a trigger's next attempt accept any share of rejected messages, and commit."""
    connection.execute(
        "UPDATE workorders.triggers SET definition = definition - 'max_rejected_share' WHERE id = %s", (trigger.id,)
    )
    connection.commit()


def look(connection: Connection, trigger: str, ends: Mapping[Partition, int], *, ago: timedelta = timedelta()) -> None:
    """Let the listener of a trigger have seen these last stable offsets, some time ago, and commit."""
    positions.record_lag(connection, trigger, ends)
    recorded = connection.execute(
        """
        UPDATE workorders.kafka_lag_samples SET minute = minute - %(ago)s, observed_at = now() - %(ago)s
        WHERE observed_at = now()
        """,
        {"ago": ago},
    )
    assert recorded.rowcount == len(ends)
    connection.commit()


def attempt(connection: Connection, batch_id: int, number: int = 0, **changes: Any) -> Attempt:
    """Begin a new attempt at one range of a batch, as the driver does, and commit."""
    epoch = positions.take_epoch(connection, batch_id)
    batch = batches.load(connection, batch_id)
    connection.commit()
    range_ = batch.ranges[number]
    begun = Attempt(
        batch_id=batch_id,
        trigger=batch.trigger,
        range=range_.range,
        epoch=epoch,
        read_from=range_.range.start,
        replayed=(range_.created or 0) + (range_.rejected or 0) if range_.finished else None,
    )
    return replace(begun, **changes)


def attempts(connection: Connection, batch_id: int) -> list[Attempt]:
    """Begin a new attempt at the unfinished virtual partitions of a batch, as the driver does, and commit."""
    epoch = positions.take_epoch(connection, batch_id)
    batch = batches.load(connection, batch_id)
    connection.commit()
    return [
        Attempt(batch_id=batch_id, trigger=batch.trigger, range=unit.range, epoch=epoch, read_from=unit.range.start)
        for range_ in batch.unfinished
        for unit in range_.to_ingest
    ]


@dataclass
class Proof:
    """Replaces the look behind the last message; remembers where it was asked to look."""

    failure: Exception | None = None
    asked: tuple[int, ...] = ()

    def __call__(self, from_offset: int) -> None:
        """Find nothing, or fail."""
        self.asked += (from_offset,)
        if self.failure is not None:
            raise self.failure


def no_proof(from_offset: int) -> NoReturn:
    """Replace a proof that no caller may ask for."""
    raise AssertionError(f"a proof was asked for at {from_offset}")


ProveEnd = Callable[[int], None]
ProveSameLog = Callable[[], None]


def same_log() -> None:
    """Replace the check of a topic that was not changed."""


def row(connection: Connection, trigger: Trigger, number: int = 0) -> PartitionStatus:
    """Return the ledger row of a partition."""
    (found,) = (row for row in positions.status(connection, trigger.name) if row.partition == number)
    return found


def everything(connection: Connection, trigger: Trigger) -> dict[str, list[tuple[Any, ...]]]:
    """Return all that the database holds of a trigger, to show that nothing changed."""
    tables = {
        "kafka_ledger": "trigger_id",
        "kafka_batches": "trigger_id",
        "kafka_ranges": "trigger_id",
        "work_orders": "trigger_id",
        "source_streams": "trigger_id",
    }
    found = {
        table: connection.execute(
            f"SELECT * FROM workorders.{table} AS t WHERE {column} = %s ORDER BY t::text",
            (trigger.id,),
        ).fetchall()
        for table, column in tables.items()
    }
    found["kafka_virtual_partitions"] = connection.execute(
        "SELECT parts.* FROM workorders.kafka_virtual_partitions AS parts "
        "JOIN workorders.kafka_batches AS batches ON batches.id = batch_id WHERE trigger_id = %s ORDER BY parts::text",
        (trigger.id,),
    ).fetchall()
    connection.rollback()
    return found
