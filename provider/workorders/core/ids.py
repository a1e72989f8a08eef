"""Identifiers that grow with time, so that inserts stay at the right edge of every index."""

import secrets
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from uuid import UUID

_VERSION_AND_VARIANT = (0x7 << 76) | (0b10 << 62)
_COUNTER_START_BITS = 61
_WIDTH_BYTES = 16


def increasing_ids(milliseconds: int | None = None, *, after: UUID | None = None) -> Iterator[bytes]:
    """Yield UUIDs of version 7 (RFC 9562), as 16 bytes, each greater than the one before.

    All identifiers of one call carry the same millisecond; the low 62 bits start at random and count up (RFC 9562,
    section 6.2, method 2), so that the rows of one batch keep the order of their source. The start leaves the upper
    half of those bits free, far more than a batch can use. All are greater than `after`, even if the clock of its
    creator is ahead of this one.
    """
    now = time.time_ns() // 1_000_000 if milliseconds is None else milliseconds
    if after is not None:
        now = max(now, (after.int >> 80) + 1)
    high = (now << 80) | _VERSION_AND_VARIANT | (secrets.randbits(12) << 64)
    low = secrets.randbits(_COUNTER_START_BITS)
    value = high | low
    while True:
        yield value.to_bytes(_WIDTH_BYTES, "big")
        value += 1


def first_id(time: datetime) -> UUID:
    """Return the smallest id of a time: ids are UUIDs of version 7, which begin with Unix milliseconds."""
    return UUID(int=max(int(time.timestamp() * 1000), 0) << 80)


def time_of(id_: UUID) -> datetime:
    """Return the time in an id, which is that of its creator's clock."""
    return datetime.fromtimestamp((id_.int >> 80) / 1000, UTC)


def run_ids(count: int) -> list[UUID]:
    """Return new ids, each greater than the one before."""
    return [UUID(bytes=id_) for id_ in islice(increasing_ids(), count)]
