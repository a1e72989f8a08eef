"""Records stalls with their errors in the ledger, and reads the errors back for people."""

from collections.abc import Collection, Mapping
from typing import Final

from workorders.core.outage_delay import delay_seconds
from workorders.core.postgres.connection import Connection
from workorders.kafka.ledger import batches, positions
from workorders.kafka.ledger.batches import Batch, BatchRange
from workorders.kafka.partitions import OffsetRange

BREAKER_RETRY_SECONDS: Final = 600
"""Wait after the breaker tripped, because only a change of the trigger's file lets the same messages pass."""


def record(
    connection: Connection,
    batch: Batch,
    epoch: int,
    errors: Mapping[OffsetRange, str],
    tripped: Collection[OffsetRange] = (),
) -> None:
    """Record the error of each range, and mark its partition as stalled until the next try.

    A range that was ingested before and fails in a replay stalls nothing: its partition continues after it. One that
    was committed after all stalls nothing either. The breaker tripped at the ranges in `tripped`.
    """
    finished = {range_.range for range_ in batch.ranges if range_.finished}
    for range_, error in errors.items():
        is_replay = range_ in finished
        batches.write_error(connection, batch.id, range_, epoch=epoch, error=error, is_replay=is_replay)
        if not is_replay:
            failures = positions.count_attempts(connection, batch.trigger, range_.partition)
            positions.stall(
                connection,
                batch.trigger,
                range_,
                epoch=epoch,
                error=error,
                delay_seconds=BREAKER_RETRY_SECONDS if range_ in tripped else delay_seconds(failures),
            )


def record_all(connection: Connection, batch: Batch, epoch: int, error: str) -> None:
    """Stall every unfinished range with the same error."""
    record(connection, batch, epoch, {range_.range: error for range_ in batch.ranges if range_.unfinished})


def record_unexplained(connection: Connection, batch: Batch, epoch: int, failure: str = "") -> None:
    """Stall the ranges whose attempt ended before it recorded an error; the batch is as the attempt left it.

    `failure` is why it ended, if that is known.
    """
    record(connection, batch, epoch, {range_.range: _unexplained(range_, failure) for range_ in _silent(batch)})


def errors_of(batch: Batch, failure: str = "") -> list[str]:
    """Return the errors of the newest attempt at a batch, one sentence for each range.

    An unfinished range without an error is included: its attempt died before it could record one. If it is known why,
    one sentence names them all.
    """
    recorded = [range_.last_error for range_ in batch.ranges if range_.last_error and not range_.superseded]
    silent = _silent(batch)
    if not (failure and silent):
        return recorded + [_unexplained(range_) for range_ in silent]
    places = ", ".join(f"{range_.range}: {_committed(range_)}" for range_ in silent)
    return [*recorded, f"{failure.rstrip('.')}. {places}."]


def _silent(batch: Batch) -> list[BatchRange]:
    return [range_ for range_ in batch.unfinished if range_.last_error is None]


def _unexplained(range_: BatchRange, failure: str = "") -> str:
    why = failure.rstrip(".") or "the attempt ended without recording an error"
    return f"{range_.range}: {why}; {_committed(range_)}."


def _committed(range_: BatchRange) -> str:
    return range_.progress or "nothing was committed there"
