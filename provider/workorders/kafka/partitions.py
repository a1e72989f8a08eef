"""Partitions with their states, the offsets in them, and the records at these offsets. Every range is half-open."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar


class PartitionState(StrEnum):
    """Whether a partition advances, and if not, why; the worst first."""

    TOPIC_RECREATED = "topic re-created"
    MESSAGES_DELETED = "unread messages deleted"
    LOG_TRUNCATED = "log truncated"
    NOT_IN_KAFKA = "not in Kafka"
    STALLED = "stalled"
    """The last attempt failed."""
    OPEN_TRANSACTION = "waiting for an open transaction"
    BEHIND = "behind"
    IN_BATCH = "in batch"
    NOT_PLANNED = "not planned yet"
    UNKNOWN = "?"
    """Kafka did not answer; the problem of the trigger has the reason."""
    UP_TO_DATE = "up to date"
    TOPIC_DELETED = "topic deleted"
    """The planner records a stall if a topic is gone that the trigger names, so this is one that a pattern matched:
    nothing is left to do for it."""

    @property
    def rank(self) -> int:
        """Return the place in a list that begins with the worst."""
        return list(PartitionState).index(self)

    @property
    def is_contradiction(self) -> bool:
        """Return whether the ledger and Kafka contradict each other, so that a person decides how it continues."""
        return self.rank < PartitionState.STALLED.rank

    @property
    def needs_attention(self) -> bool:
        """Return whether the partition stays where it is until someone or something else changes."""
        return self.rank <= PartitionState.STALLED.rank


E = TypeVar("E")

DEFAULT_MAX_MESSAGE_BYTES: Final = 10 * 1024 * 1024
"""Largest message that becomes a work order, unless a trigger file sets another limit."""


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """A partition of a topic, with the topic's id, which a re-created topic does not keep."""

    topic: str
    partition: int
    topic_id: str

    def __str__(self) -> str:
        """Return the form in which people see partitions: `orders 0`."""
        return f"{self.topic} {self.partition}"

    @property
    def topic_partition(self) -> tuple[str, int]:
        """Return topic and number: the key under which the ledger, a group, and Kafka's clients know the partition."""
        return self.topic, self.partition


Place = tuple[str, int | None]
"""A topic with the number of a partition, or None for the whole topic."""


def error_at(errors: Mapping[Place, E], partition: Partition) -> E | None:
    """Return the error of a partition or of its whole topic; None if neither has one."""
    return errors.get(partition.topic_partition) or errors.get((partition.topic, None))


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """Start and ends of a partition's log now. Offsets are half-open: `[log_start, last_stable)` can be read."""

    partition: Partition
    log_start: int
    """First offset that the broker still has."""
    last_stable: int
    """End of what a `read_committed` reader may see: no open transaction began before it."""
    high_watermark: int
    """End of the log, open transactions included."""

    def mismatch(self, topic_id: str, next_offset: int, stored_end: int) -> PartitionState | None:
        """Return why a ledger of this topic id and offset does not match the log; None if it does.

        What is stored may end after the ledger. In a shorter log, the offsets in between mean other messages.
        """
        if self.partition.topic_id != topic_id:
            return PartitionState.TOPIC_RECREATED
        if self.log_start > next_offset:
            return PartitionState.MESSAGES_DELETED
        return PartitionState.LOG_TRUNCATED if self.high_watermark < max(next_offset, stored_end) else None


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Half-open range of offsets `[start, end)` of one partition."""

    partition: Partition
    start: int
    end: int

    def __str__(self) -> str:
        """Return the form in which people see ranges: `orders 0 [100, 2100)`."""
        return f"{self.partition} [{self.start}, {self.end})"

    @property
    def planned(self) -> "OffsetRange":
        """Return the range of the batch: this one, or the one that this virtual partition was cut from."""
        return self


@dataclass(frozen=True, slots=True, order=True)
class VirtualPartition(OffsetRange):
    """A piece of a range, which is read and written in its own transaction, next to the others."""

    cut_from: OffsetRange

    def __str__(self) -> str:
        """Return its offsets, and the range as people know it: `orders 0 [600, 1100) of [100, 2100)`."""
        return f"{OffsetRange.__str__(self)} of [{self.cut_from.start}, {self.cut_from.end})"

    @property
    def planned(self) -> OffsetRange:
        """Return the whole range."""
        return self.cut_from


@dataclass(frozen=True, slots=True)
class Position:
    """The ledger's position of one partition."""

    partition: Partition
    next_offset: int
    """First offset that has no work order yet."""
    busy: bool
    """An unfinished batch holds the partition."""
    mean_message_bytes: float | None = None
    """Mean size of a message, key and headers included, in earlier batches."""
    stalled_seconds: float | None = None
    """Time since its stall began; None if it is not stalled."""
    alerted: bool = False
    """Whether an alert was recorded for that stall."""
    cluster_id: str | None = None
    """The cluster that the topic was found in; None if it is unknown."""
    stored_end: int = 0
    """Highest end of what is stored of this log."""

    @property
    def log_end(self) -> int:
        """Return the offset that the log had reached at least."""
        return max(self.next_offset, self.stored_end)


class Record(NamedTuple):
    """One Kafka record as a client gives it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    """Milliseconds since 1970; -1 or None when the record has no timestamp."""
    timestamp_type: int
    """Kafka's number: -1 none, 0 set by the producer, 1 set by the broker."""
    headers: Sequence[tuple[str | bytes, bytes | None]] = ()
