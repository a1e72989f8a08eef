"""Stalls in the ledger: written down with their reason, and read back for the sentence that people see."""

from collections.abc import Collection, Mapping
from typing import Final

from workorders.core.backoff import delay_seconds
from workorders.core.postgres.connection import Connection
from workorders.kafka.ledger import batches, positions
from workorders.kafka.ledger.batches import Batch
from workorders.kafka.partitions import OffsetRange

BREAKER_RETRY_SECONDS: Final = 600
"""Wait after the breaker tripped: only a person's change of the trigger file lets the same messages pass."""


def record(
    connection: Connection,
    batch: Batch,
    epoch: int,
    errors: Mapping[OffsetRange, str],
    tripped: Collection[OffsetRange] = (),
) -> None:
    """Keep the reason with each range, and mark its partition as stalled, with the time of the next try.

    A range that was ingested before and fails in a replay stalls nothing: its partition is read on behind it.

    Args:
        connection: the database.
        batch: the batch.
        epoch: number of the attempt.
        errors: one plain sentence per range that failed.
        tripped: the ranges of these at which the breaker tripped.
    """
    attempts = {(row.topic, row.partition): row.attempts for row in positions.status(connection, batch.trigger.name)}
    finished = {part.range for part in batch.ranges if part.finished}
    for range_, error in errors.items():
        batches.write_error(connection, batch.id, range_, epoch=epoch, error=error)
        if range_ not in finished:
            partition = range_.partition
            failures = attempts.get(partition.topic_partition, 1)
            positions.stall(
                connection,
                batch.trigger,
                partition,
                epoch=epoch,
                error=error,
                delay_seconds=BREAKER_RETRY_SECONDS if range_ in tripped else delay_seconds(failures),
            )


def record_all(connection: Connection, batch: Batch, epoch: int, error: str) -> None:
    """Stall every range that is not ingested yet, for one reason that concerns them all."""
    record(connection, batch, epoch, {part.range: error for part in batch.ranges if part.unfinished})


def record_unexplained(connection: Connection, batch_id: int, epoch: int) -> None:
    """Stall the ranges that an attempt left without a reason, for it died before it could give one."""
    batch = batches.load(connection, batch_id)
    unsaid = [part.range for part in batch.ranges if part.unfinished and part.last_error is None]
    record(connection, batch, epoch, {range_: _unexplained(range_) for range_ in unsaid})


def errors_of_batch(connection: Connection, batch_id: int) -> list[str]:
    """Return why the newest attempt at a batch failed, a sentence a range.

    An unfinished range without a reason is named as well: the attempt died before it could give one.
    """
    return [
        part.last_error or _unexplained(part.range)
        for part in batches.load(connection, batch_id).ranges
        if not part.superseded and (part.last_error or not part.finished)
    ]


def _unexplained(range_: OffsetRange) -> str:
    return f"{range_}: the attempt ended before it said why; nothing was committed there."
