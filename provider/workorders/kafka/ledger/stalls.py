"""Records stalls with their errors in the ledger, reads the errors back for people, and claims their alerts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from workorders import times
from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger
from workorders.kafka.ledger import batches, positions
from workorders.kafka.ledger.batches import Batch, BatchRange
from workorders.kafka.partitions import OffsetRange

_QUERIES = load_queries("workorders.kafka.ledger", "sql/stalls.sql")


def record(connection: Connection, batch: Batch, epoch: int, errors: Mapping[OffsetRange, str]) -> None:
    """Record the error of each range, and mark its partition as stalled until the next try.

    A range that was ingested before and fails in a replay stalls nothing: its partition continues after it. One that
    was committed after all stalls nothing either.
    """
    finished = {range_.range for range_ in batch.ranges if range_.finished}
    for range_, error in errors.items():
        is_replay = range_ in finished
        batches.write_error(connection, batch.id, range_, epoch=epoch, error=error, is_replay=is_replay)
        if not is_replay:
            positions.stall(connection, batch.trigger, range_, epoch=epoch, error=error)


def record_unexplained(connection: Connection, batch: Batch, epoch: int, failure: str = "") -> None:
    """Stall the unfinished ranges of which no error is recorded; the batch is as the attempt left it.

    `failure` is why the attempt ended, if that is known.
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


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert about one stall: the argument of a notifier."""

    trigger: str
    topic: str
    partition: int
    next_offset: int
    """First offset without a work order."""
    since: datetime
    """Start of the stall, by the database's clock."""
    end_offset: int | None = None
    """End of the range that cannot be ingested; None after the stall."""
    attempts: int = 0
    """Attempts at the range so far; 0 after the stall."""
    last_error: str | None = None
    cleared: bool = field(kw_only=True)
    """Whether the stall is over."""

    @property
    def sentence(self) -> str:
        """The whole alert as text."""
        place, since = f"{self.topic} {self.partition}", times.show(self.since)
        if self.cleared:
            return (
                f"Trigger {self.trigger}: the stall of {place} that began at {since} has ended; the ledger is at "
                f"offset {self.next_offset}."
            )
        offsets = "" if self.end_offset is None else f" [{self.next_offset}, {self.end_offset})"
        return (
            f"Trigger {self.trigger}: {place}{offsets} has been stalled since {since}, and attempt {self.attempts} "
            f"failed as well. {one_line(self.last_error or 'No error was recorded.')} Nothing is skipped, and the "
            f"retries continue indefinitely."
        )


def claim_alerts(connection: Connection, trigger: Trigger, *, after_seconds: float) -> list[Alert]:
    """Return the alerts of stalls that are older than `after_seconds`, record that they were claimed, and commit.

    The statement that finds a due stall also records that its alert was claimed, so one of several concurrent attempts
    gets it. The alert is sent after that commit: a crash between the two loses the alert, and no crash repeats it.
    """
    arguments = {"trigger_id": trigger.id, "after_seconds": after_seconds}
    with connection.transaction():
        over = connection.execute(_QUERIES["claim_cleared"], arguments).fetchall()
        due = connection.execute(_QUERIES["claim_stalled"], arguments).fetchall()
    return [Alert(trigger.name, *row, cleared=rows is over) for rows in (over, due) for row in rows]
