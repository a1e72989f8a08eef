"""Decides when a batch is planned or grows, and chooses its offset ranges: pure functions, no clock, no I/O."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from workorders.core.exceptions import ConfigurationError
from workorders.core.workflows import Workflow
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.partitions import (
    OffsetRange,
    Partition,
    PartitionOffsets,
    Place,
    Position,
    VirtualPartition,
    error_at,
)

LARGE_BACKLOG: Final = 1_000
"""Unread offsets that a growing batch takes without a rest."""
_REST: Final = 0.5
"""How long a batch rests for each batch that grows at the time, as a share of its last round."""
_APART_SECONDS: Final = 8.0
"""So many seconds after a round began, the rest after it is over."""
FIRST_GUESS_MESSAGE_BYTES = 16.0 * 1024
"""Assumed size of a message of a partition that was never read: the first round is small, and the next one knows."""
MIN_MESSAGES: Final = 1000
"""Minimum of offsets in a virtual partition. The transaction, the connection, and Spark's task of a smaller one cost
more than its messages, so a trickle is not cut."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Unread offsets of a trigger's free partitions."""

    offsets: int
    """Number of unread offsets; at least the number of messages, because some offsets are invisible."""
    mismatches: tuple[Partition, ...]
    """Partitions whose log and ledger do not match; they get a batch, whose failure people see."""
    stalls: tuple[Partition, ...] = ()
    """Free partitions whose stall has begun or ended, or is worth an alert: the planner records and sends that."""

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return self.offsets == 0 and not self.mismatches and not self.stalls


NOTHING: Final = Backlog(0, ())
"""The backlog of a trigger that has read everything."""


def needs_high_watermark(ends: Mapping[Partition, int], ledger: Mapping[Partition, Position]) -> list[Partition]:
    """Return the partitions whose last stable offset is below what is stored, so that their high watermark is needed.

    This is not yet a mismatch: reading may have begun inside a transaction that is still open, or a batch was ingested
    between the two questions.
    """
    return [
        position.partition
        for position in ledger.values()
        if not position.busy and ends.get(position.partition, position.log_end) < position.log_end
    ]


def backlog(
    ends: Mapping[Partition, int],
    ledger: Mapping[Partition, Position],
    high_watermarks: Mapping[Partition, int] = MappingProxyType({}),
) -> Backlog:
    """Compare the ends of the logs with the ledger. Partitions that it does not have are left to the next poll.

    Args:
        ends: last stable offset by partition, with the current topic ids.
        ledger: positions by partition, with the topic ids that were read.
        high_watermarks: of the partitions that `needs_high_watermark` names, asked after the ledger was read.
    """
    known = {position.partition.topic_partition: position for position in ledger.values()}
    offsets = 0
    mismatches: list[Partition] = []
    for partition, end in ends.items():
        position = known.get(partition.topic_partition)
        if position is None or position.busy:
            continue
        if position.partition.topic_id != partition.topic_id or high_watermarks.get(partition, end) < position.log_end:
            mismatches.append(partition)
        else:
            offsets += max(end - position.next_offset, 0)
    mismatches += [position.partition for position in deleted_partitions(ends, ledger)]
    return Backlog(offsets, tuple(mismatches))


def changed_stalls(
    errors: Mapping[Place, Exception],
    before: Mapping[Place, Exception],
    ledger: Mapping[Partition, Position],
    *,
    alert_after_seconds: float,
) -> tuple[Partition, ...]:
    """Return the free partitions whose stall has begun or ended, or is worth an alert.

    Args:
        errors: of the topics and partitions that Kafka cannot answer for now.
        before: the same some seconds ago; a stall begins with the second error, because a leader is soon elected.
        ledger: positions by partition.
        alert_after_seconds: seconds after which a stall is worth an alert.
    """

    def has_changed(position: Position) -> bool:
        error, seconds = error_at(errors, position.partition), position.stalled_seconds
        if seconds is None:
            return error is not None and error_at(before, position.partition) is not None
        return error is None or (seconds >= alert_after_seconds and not position.alerted)

    return tuple(partition for partition, position in ledger.items() if not position.busy and has_changed(position))


def should_plan(
    waiting: Backlog,
    definition: KafkaTriggerDefinition,
    *,
    waited_seconds: float,
    seconds_since_last_batch: float | None,
    is_open: bool = False,
) -> bool:
    """Return whether a batch should be planned now.

    While a batch of the trigger grows (`is_open`), free partitions are left to it.
    """
    if waiting.stalls:
        return True
    if waiting.empty:
        return False
    if is_open and not waiting.mismatches:
        return False
    enough = waiting.offsets >= definition.min_messages or waited_seconds >= definition.max_wait
    allowed = allowed_by_rate(definition.rate_limit_per_second, seconds_since_last_batch, definition.max_messages)
    return (bool(waiting.mismatches) or enough) and allowed >= 1


def rest_seconds(round_seconds: float, growing: int) -> float:
    """Return how long a growing batch rests after a round that took so many seconds.

    It rests longer the more batches grow, because many triggers share a machine. If each began the next round at once,
    they would keep all cores busy with ever smaller rounds, and tasks that start in between would take a minute.
    """
    return max(0.0, min(_REST * growing * round_seconds, _APART_SECONDS - round_seconds))


def allowed_by_rate(rate_per_second: float | None, seconds_since_last_batch: float | None, burst: int) -> int:
    """Return how many messages a batch may have now, at most `burst`, because of a rate limit.

    Idle time accumulates. Without a last batch, or with one in the future because the database's clock has stepped
    back, a second's messages are allowed.
    """
    if rate_per_second is None:
        return burst
    if seconds_since_last_batch is None or seconds_since_last_batch < 0:
        return math.floor(min(max(rate_per_second, 1.0), burst))
    return math.floor(min(rate_per_second * seconds_since_last_batch, burst))


def drop_stale_ends(
    logs: Sequence[PartitionOffsets], before: Mapping[Partition, Position], now: Mapping[Partition, Position]
) -> list[PartitionOffsets]:
    """Leave out logs that another planner's batch has passed since this planner asked for their ends.

    There the ledger is past the old end of the log, which looks like a truncated log. A log was really truncated only
    if its end is below that of the ledger *before* Kafka was asked.
    """
    return [
        log for log in logs if not _end_of(before, log.partition) <= log.high_watermark < _end_of(now, log.partition)
    ]


def _end_of(ledger: Mapping[Partition, Position], partition: Partition) -> int:
    position = ledger.get(partition)
    return 0 if position is None else position.log_end


def contradicting(offsets: Sequence[PartitionOffsets], ledger: Mapping[Partition, Position]) -> list[PartitionOffsets]:
    """Return the logs of free partitions that do not match the ledger."""
    known = {position.partition.topic_partition: position for position in ledger.values()}
    return [
        log
        for log in offsets
        if (position := known.get(log.partition.topic_partition)) is not None
        and not position.busy
        and log.mismatch(position.partition.topic_id, position.next_offset, position.stored_end) is not None
    ]


def plan_ranges(
    offsets: Sequence[PartitionOffsets], ledger: Mapping[Partition, Position], *, max_messages: int, max_bytes: int
) -> list[OffsetRange]:
    """Split a round between the free partitions that have messages to read.

    Small backlogs are taken whole and large ones share the rest evenly, so that no partition starves. A partition whose
    ledger and log do not match gets a range as well, whose task fails with the reason.

    Returns:
        One range for each partition, with the topic id that was read, sorted by partition; empty if there is nothing to
        read.
    """
    known = {position.partition.topic_partition: position for position in ledger.values()}
    wanted = [
        OffsetRange(position.partition, position.next_offset, position.next_offset + 1)
        for position in deleted_partitions([log.partition for log in offsets], ledger)
    ]
    for log in offsets:
        position = known.get(log.partition.topic_partition)
        if position is not None and not position.busy:
            end = _end(log, position)
            if end > position.next_offset:
                wanted.append(OffsetRange(position.partition, position.next_offset, end))
    return _split_fairly(wanted, ledger, max_messages, max_bytes)


def deleted_partitions(partitions: Iterable[Partition], ledger: Mapping[Partition, Position]) -> list[Position]:
    """Return the free positions whose partition does not exist because its topic was re-created with fewer partitions.

    A topic that does not exist is ignored: it may come back, or the trigger may not read it any more.
    """
    existing = list(partitions)
    places = {partition.topic_partition for partition in existing}
    ids = {partition.topic: partition.topic_id for partition in existing}
    return [
        position
        for position in ledger.values()
        if not position.busy
        and position.partition.topic_partition not in places
        and ids.get(position.partition.topic, position.partition.topic_id) != position.partition.topic_id
    ]


def _end(log: PartitionOffsets, position: Position) -> int:
    if log.mismatch(position.partition.topic_id, position.next_offset, position.stored_end) is None:
        return log.last_stable
    return max(log.last_stable, position.next_offset + 1)


def _split_fairly(
    wanted: Sequence[OffsetRange], ledger: Mapping[Partition, Position], messages_left: int, bytes_left: float
) -> list[OffsetRange]:
    shares: list[OffsetRange] = []
    smallest_first = sorted(wanted, key=lambda range_: (range_.end - range_.start, range_))
    for place, range_ in enumerate(smallest_first):
        sharers = len(smallest_first) - place
        size = ledger[range_.partition].mean_message_bytes or FIRST_GUESS_MESSAGE_BYTES
        by_count = math.ceil(messages_left / sharers)
        by_bytes = math.floor(bytes_left / sharers / size)
        # A batch has at least one message, even if the messages are large.
        count = min(range_.end - range_.start, by_count, max(by_bytes, 0 if shares else 1))
        if count > 0:
            shares.append(OffsetRange(range_.partition, range_.start, range_.start + count))
            messages_left -= count
            bytes_left -= count * size
    return sorted(shares)


def cut(range_: OffsetRange, count: int) -> tuple[VirtualPartition, ...]:
    """Return at most `count` virtual partitions of one size, without gaps; none if the range is too small to be cut."""
    size = range_.end - range_.start
    count = min(count, size // MIN_MESSAGES)
    if count < 2:  # noqa: PLR2004 - one is the range itself
        return ()
    ends = [range_.start + size * number // count for number in range(count + 1)]
    return tuple(VirtualPartition(range_.partition, start, end, range_) for start, end in pairwise(ends))


def require_no_order(definition: KafkaTriggerDefinition, workflow: Workflow) -> None:
    """Refuse the virtual partitions of a trigger for a workflow whose runs need the order of the messages.

    Raises:
        ConfigurationError: the workflow has an ordering key, or runs one work order at a time.
    """
    if workflow.definition is not None and workflow.definition.ordering_key is not None:
        reason = f"has the ordering_key {workflow.definition.ordering_key}"
    elif workflow.concurrency == 1:
        reason = "has concurrency: 1"
    else:
        return
    raise ConfigurationError(
        f"{definition.name}: virtual_partitions: expected 1, because workflow {workflow.name} {reason} and virtual "
        f"partitions are written in any order, got {definition.virtual_partitions}. Nothing was planned or read; "
        f"remove virtual_partitions from the trigger's file, or the order from the workflow."
    )
