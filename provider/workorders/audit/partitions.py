"""Compares the ledger of a partition with its ranges, the decisions about it, and the number of work orders: pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from workorders import dag_ids
from workorders.audit.findings import REPORT, Check, Finding
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import Partition
from workorders.kafka.recovery.decisions import DecisionKind, cli_command

Interval = tuple[int, int]
"""Half-open offsets."""
Move = Sequence[int]
"""A decision within a log: from which offset to which one it set the ledger, forward or back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """A row of the ledger, with what the database alone tells about it."""

    trigger_id: int
    trigger: str
    topic: str
    partition: int
    topic_id: str
    generation: int
    start_offset: int
    next_offset: int
    stored_end: int
    stream_id: int
    stream: str
    last_stored: int | None
    """Highest position of the stream."""
    counts: Sequence[int]
    """Created, rejected, existing, and filtered messages, of all logs of the partition."""
    moves: Sequence[Move]
    """The decisions about this log."""
    held_start: int | None
    """Start of the unfinished range."""
    held_end: int | None
    held_is_same_log: bool | None
    is_known_log: bool
    """Whether the generation is that of a decision."""
    is_first_log: bool
    """Whether the partition has had no other log."""
    deletes_before: datetime | None
    """Retention may have deleted batches that were planned before, so they are not compared; None without retention."""
    may_begin_late: bool
    """Whether retention may have deleted the first batches."""

    @property
    def log(self) -> Partition:
        """The log that the ledger follows."""
        return Partition(self.topic, self.partition, self.topic_id)

    def seek(self, offset: int) -> str:
        """Return the command that lets reading continue at an offset."""
        return f"{cli_command(DecisionKind.SEEK, self.trigger, self.log)} --offset {offset}"

    def found(self, check: Check, what: str, action: str = REPORT, offsets: Interval | None = None) -> Finding:
        """Return a finding of this partition."""
        start, end = offsets or (None, None)
        place = {"trigger": self.trigger, "topic": self.topic, "partition": self.partition}
        return Finding(check=check, what=what, action=action, start=start, end=end, **place)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class FinishedRange:
    """A finished range of one log."""

    batch_id: int
    start: int
    end: int
    created: int
    rejected: int
    existing: int
    filtered: int
    filter: Any
    """Filter of the batch, as it is stored."""


@dataclass(frozen=True, slots=True)
class StoredCounts(FinishedRange):
    """A finished range, and what is stored of it."""

    orders: int
    """Work orders in the range."""
    positions: int
    """Different positions of these."""
    is_read_twice: bool
    """Whether offsets of it are in another batch as well, which may have taken other messages."""


def check_ranges(ledger: Ledger, ranges: Iterable[FinishedRange]) -> Iterator[Finding]:
    """Compare the finished ranges of the followed log with one another and with the ledger, by their starts."""
    reached = None if ledger.may_begin_late else ledger.start_offset
    sums = [0, 0, 0, 0]
    for range_ in ranges:
        if reached is None:
            reached = range_.start
        # What is after the ledger is read again.
        yield from _check_gap(ledger, reached, min(range_.start, ledger.next_offset))
        for part in uncovered((range_.start, min(range_.end, reached)), map(_back, ledger.moves)):
            what = f"Batch {range_.batch_id} has finished offsets that another batch has finished before"
            yield ledger.found(Check.RANGES, f"{what}, and no decision set the ledger back.", REPORT, part)
        counts = (range_.created, range_.rejected, range_.existing, range_.filtered)
        sums = [sum_ + count for sum_, count in zip(sums, counts, strict=True)]
        reached = max(reached, range_.end)
    if reached is None:
        reached = ledger.next_offset
    yield from _check_gap(ledger, reached, ledger.next_offset)
    for part in uncovered((ledger.next_offset, reached), map(_back, ledger.moves)):
        what = f"The ledger is at {ledger.next_offset}, before finished ranges, and no decision set it back."
        action = f"Find out who changed the table kafka_ledger, and run `{ledger.seek(reached)}`."
        yield ledger.found(Check.LEDGER, what, action, part)
    is_exact = ledger.is_first_log and not ledger.may_begin_late
    if any(count < sum_ or (is_exact and count != sum_) for count, sum_ in zip(ledger.counts, sums, strict=True)):
        what = f"The ledger counts {_counted(ledger.counts)}, and its finished ranges {_counted(sums)}."
        yield ledger.found(Check.COUNTS, what)


def _check_gap(ledger: Ledger, reached: int, until: int) -> Iterator[Finding]:
    for part in uncovered((reached, until), ((start, end) for start, end in ledger.moves)):
        seek = ledger.seek(part[0])
        action = f"While Kafka has them, `{seek}` reads them again, and work orders that exist stay as they are."
        what = "The ledger is past these offsets, which no batch has finished and no decision has skipped."
        yield ledger.found(Check.RANGES, what, action, part)


def check_ledger(ledger: Ledger) -> Iterator[Finding]:
    """Compare a row of the ledger with the stream, the unfinished range, and the last position."""
    expected = stream_name(ledger.log, ledger.generation)
    if ledger.stream != expected:
        yield ledger.found(Check.LEDGER, f"The ledger follows the log {expected}, and stores into {ledger.stream}.")
    if not ledger.is_known_log:
        yield ledger.found(Check.LEDGER, f"The ledger has generation {ledger.generation}, which no decision began.")
    if ledger.held_start is not None and ledger.held_end is not None:
        is_within = ledger.held_start <= ledger.next_offset < ledger.held_end
        if not (is_within and ledger.held_is_same_log):
            what = f"The ledger is at {ledger.next_offset}, and not in the unfinished range of the same log."
            yield ledger.found(Check.LEDGER, what, REPORT, (ledger.held_start, ledger.held_end))
    end = max(ledger.next_offset, ledger.stored_end)
    if ledger.last_stored is not None and ledger.last_stored >= end:
        what = f"A work order is stored after offset {end}, up to which the ledger has stored this log."
        yield ledger.found(Check.LEDGER, what, REPORT, (end, ledger.last_stored + 1))


def check_counts(ledger: Ledger, counts: StoredCounts) -> Iterator[Finding]:
    """Compare the counts of a finished range with its work orders."""
    offsets = (counts.start, counts.end)
    least = total = counts.created + counts.rejected + counts.existing
    if counts.positions < counts.orders:
        what = f"{counts.orders - counts.positions} offsets have two work orders; the unique index is broken."
        yield ledger.found(Check.COUNTS, what, "Run REINDEX on the table work_orders, which names the rows.", offsets)
    if ledger.deletes_before is not None:  # what existed before may be older than the batch, and deleted
        least -= counts.existing
    what = f"Batch {counts.batch_id} counted {total} work orders, and {counts.positions} are stored."
    if counts.positions < least:
        yield ledger.found(Check.COUNTS, what, replay_action(ledger, counts.batch_id), offsets)
    is_repeated = counts.is_read_twice or any(max(counts.start, to) < min(counts.end, at) for at, to in ledger.moves)
    if counts.positions > total and not is_repeated:
        yield ledger.found(Check.COUNTS, what, REPORT, offsets)


def replay_action(ledger: Ledger, batch_id: int) -> str:
    """Return what restores missing work orders of a batch."""
    return (
        f"Clear the task create_work_orders in the Dag run {dag_ids.batch(batch_id)} of "
        f"{dag_ids.ingest(ledger.trigger)}: it creates the missing work orders while Kafka has their messages."
    )


def uncovered(wanted: Interval, by: Iterable[Interval]) -> Iterator[Interval]:
    """Yield the parts of an interval that are in none of the others, of which some may be empty."""
    at, end = wanted
    for start, until in sorted(interval for interval in by if interval[0] < interval[1]):
        if at >= end:
            return
        if start > at:
            yield at, min(start, end)
        at = max(at, until)
    if at < end:
        yield at, end


def _back(move: Move) -> Interval:
    """Return the offsets that a decision let be read again; none if it went forward."""
    return move[1], move[0]


def _counted(counts: Iterable[int]) -> str:
    names = ("created", "rejected", "existing", "filtered")
    return ", ".join(f"{count} {name}" for count, name in zip(counts, names, strict=True))
