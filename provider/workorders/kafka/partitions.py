"""Partitions, and the offsets in them. Every range is half-open."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """A partition of a topic, and the topic's id, which a recreated topic does not keep."""

    topic: str
    partition: int
    topic_id: str


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """Where a partition begins and ends now. Offsets are half-open: `[log_start, last_stable)` can be read."""

    partition: Partition
    log_start: int
    """First offset that the broker still has."""
    last_stable: int
    """End of what a `read_committed` reader may see: no open transaction began before it."""
    high_watermark: int
    """End of the log, open transactions included."""


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Half-open range of offsets `[start, end)` of one partition."""

    partition: Partition
    start: int
    end: int

    def __str__(self) -> str:
        """Return the form in which people see ranges everywhere: `orders 0 [100, 2100)`."""
        return f"{self.partition.topic} {self.partition.partition} [{self.start}, {self.end})"
