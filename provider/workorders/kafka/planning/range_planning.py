"""Decides which offsets the next batch takes: pure functions, no clock, no I/O."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workorders.kafka.partitions import OffsetRange, Partition, PartitionOffsets, Position

FIRST_GUESS_MESSAGE_BYTES = 1024.0
"""Size of a message that is assumed for a partition of which none was read yet."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What one batch may hold at most."""

    messages: int
    bytes: int

    def allow(self, messages: float) -> "BatchLimits":
        """Return these limits with at most so many messages, which is what a rate limit leaves."""
        return BatchLimits(min(self.messages, math.floor(messages)), self.bytes)


def allowed_by_rate(rate_per_second: float | None, seconds_since_last_batch: float | None, burst: int) -> float:
    """Return how many messages a rate limit leaves for a batch now.

    Waiting saves up at most `burst` messages, the size of a batch, so that an idle night is no licence to flood.
    """
    if rate_per_second is None:
        return math.inf
    if seconds_since_last_batch is None:
        return min(max(rate_per_second, 1.0), burst)
    return min(rate_per_second * max(seconds_since_last_batch, 0.0), burst)


def drop_stale_ends(
    logs: Sequence[PartitionOffsets], before: Mapping[Partition, Position], now: Mapping[Partition, Position]
) -> list[PartitionOffsets]:
    """Leave out what another planner's batch has passed since this one looked at the log.

    There the ledger stands behind the old end of the log, which would look as if the log had been cut short. It was cut
    indeed only if its end lay behind the ledger of *before* the look.
    """
    return [log for log in logs if not _next(before, log.partition) <= log.high_watermark < _next(now, log.partition)]


def _next(ledger: Mapping[Partition, Position], partition: Partition) -> int:
    position = ledger.get(partition)
    return 0 if position is None else position.next_offset


def plan_ranges(
    offsets: Sequence[PartitionOffsets], ledger: Mapping[Partition, Position], limits: BatchLimits
) -> list[OffsetRange]:
    """Share a batch between the free partitions that have something to read.

    Small backlogs are taken whole and large ones share the rest evenly, so that no partition starves. A partition
    whose ledger and log contradict each other gets a range as well: its task fails with the reason, where people look.

    Args:
        offsets: the log's ends, now.
        ledger: positions by partition as the ledger knows it, that is with the topic id it has read.
        limits: of the whole batch.

    Returns:
        One range a partition, sorted by partition; empty when there is nothing to do.
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
    return _split_fairly(wanted, ledger, limits)


def deleted_partitions(partitions: Iterable[Partition], ledger: Mapping[Partition, Position]) -> list[Position]:
    """Return the free positions whose partition is gone, for its topic was made again with fewer of them.

    A topic that is not there at all says nothing: it may come back, or the trigger does not read it any more.
    """
    there = list(partitions)
    places = {partition.topic_partition for partition in there}
    ids = {partition.topic: partition.topic_id for partition in there}
    return [
        position
        for position in ledger.values()
        if not position.busy
        and position.partition.topic_partition not in places
        and ids.get(position.partition.topic, position.partition.topic_id) != position.partition.topic_id
    ]


def _end(log: PartitionOffsets, position: Position) -> int:
    contradiction = (
        log.partition.topic_id != position.partition.topic_id
        or log.high_watermark < position.next_offset
        or log.log_start > position.next_offset
    )
    return max(log.last_stable, position.next_offset + 1) if contradiction else log.last_stable


def _split_fairly(
    wanted: Sequence[OffsetRange], ledger: Mapping[Partition, Position], limits: BatchLimits
) -> list[OffsetRange]:
    messages_left, bytes_left = limits.messages, float(limits.bytes)
    shares: list[OffsetRange] = []
    smallest_first = sorted(wanted, key=lambda range_: (range_.end - range_.start, range_))
    for place, range_ in enumerate(smallest_first):
        sharers = len(smallest_first) - place
        size = ledger[range_.partition].mean_message_bytes or FIRST_GUESS_MESSAGE_BYTES
        by_count = math.ceil(messages_left / sharers)
        by_bytes = math.floor(bytes_left / sharers / size)
        # A batch holds at least one message, however large its partition's messages are.
        count = min(range_.end - range_.start, by_count, max(by_bytes, 0 if shares else 1))
        if count > 0:
            shares.append(OffsetRange(range_.partition, range_.start, range_.start + count))
            messages_left -= count
            bytes_left -= count * size
    return sorted(shares)
