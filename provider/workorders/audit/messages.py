"""Which messages an audit reads again, and whether a work order has what its message has: pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Final
from uuid import UUID

from workorders.audit.partitions import FinishedRange
from workorders.core.admission.pipeline import REASONS
from workorders.core.items import Item

BLOCK: Final = 50
"""Offsets that are read with one consumer."""
_IN_FLIGHT: Final = timedelta(hours=1)
"""So long after a trigger was changed, an attempt may still use its definition of before."""


@dataclass(slots=True)
class Block:
    """Offsets `[start, end)` that are read again, and the finished ranges that contain some of them."""

    start: int
    end: int
    ranges: list[FinishedRange] = field(default_factory=list)

    def covering(self, offset: int) -> list[FinishedRange]:
        """Return the ranges that contain an offset."""
        return [range_ for range_ in self.ranges if range_.start <= offset < range_.end]


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """The work order of a message, compared with the item that the message makes."""

    id: UUID
    created_at: datetime
    is_rejected: bool
    has_input: bool
    code: str | None
    """Of its rejection; None without one."""
    is_wiped: bool
    same_content: bool | None
    """Whether the input, or the raw value, is that of the message."""
    same_request: bool | None
    """Whether key, headers, timestamp, and offset are those of the message."""

    @property
    def is_whole(self) -> bool:
        """Whether it has an input or a rejection, as its state tells."""
        return (self.has_input, self.code is not None) == (not self.is_rejected, self.is_rejected)


def choose_blocks(start: int, end: int, sample: int, random: Random) -> list[Block]:
    """Return blocks of offsets by chance, together about as many as the sample; all if there are no more."""
    blocks = range(-(-(end - start) // BLOCK))
    chosen = random.sample(blocks, min(len(blocks), -(-sample // BLOCK)))
    return [Block(start + number * BLOCK, min(start + (number + 1) * BLOCK, end)) for number in sorted(chosen)]


def was_changed_since(created_at: datetime, trigger_changed_at: datetime | None) -> bool:
    """Return whether a message may have been stored by an older definition of its trigger, which is not kept."""
    return trigger_changed_at is not None and created_at < trigger_changed_at + _IN_FLIGHT


def is_missing(ranges: Sequence[FinishedRange], deletes_before: datetime | None) -> bool:
    """Return whether a message without a work order, which some of the ranges took, must have one.

    Retention may have deleted one that existed before its batch.
    """
    return deletes_before is None or any(not range_.existing for range_ in ranges)


def difference(item: Item, stored: StoredMessage, *, is_decoded: bool, has_headers: bool) -> str | None:
    """Return in which words a work order differs from its message; None if it does not, or its input is erased.

    With a schema registry (`is_decoded`), the schemas may be other ones by now. Unlike Spark's, the client cannot read
    all headers.
    """
    if not stored.is_whole:
        return "has neither an input nor a rejection, or both"
    if stored.is_wiped:
        return None
    if stored.has_input and item.body is None:
        reason = item.rejection.code if item.rejection else "rejected"
        return None if is_decoded else f"has an input, and its message is {reason}"
    if not stored.same_content:
        return "has another content than its message"
    # A message that was rejected is written with its key as it came.
    is_comparable = not is_decoded or stored.has_input or stored.code in REASONS
    if is_comparable and has_headers and not stored.same_request:
        return "has another key, other headers, or another timestamp than its message"
    return None


def assigned(ranges: Iterable[FinishedRange], blocks: Sequence[Block]) -> Iterator[FinishedRange]:
    """Yield ranges, and tell the blocks in them."""
    for range_ in ranges:
        for block in blocks:
            if block.start < range_.end and range_.start < block.end:
                block.ranges.append(range_)
        yield range_
