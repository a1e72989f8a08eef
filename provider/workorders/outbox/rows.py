"""Waiting messages as they are read, in the order in which they are to be sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

Row = tuple[int, str, bytes | None, bytes | None, list[list[Any]] | None, int | None, int | None, str | None, int]
"""An `OutboxRow` as it comes from the database: the relay's innermost loops spare themselves half of reading it so."""
ROW_ID: Final = 0
ROW_TOPIC: Final = 1
ROW_KEY: Final = 2
ROW_VALUE: Final = 3
ROW_PARTITION: Final = 5
ROW_BUCKET: Final = 8


class OutboxRow(NamedTuple):
    """A message as it waits."""

    id: int
    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[list[Any]] | None
    partition: int | None
    timestamp_ms: int | None
    #: None unless it was asked for.
    event_id: str | None
    bucket: int


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a batch that stand in one bucket of a topic."""

    topic: str
    bucket: int
    #: With commas between them: thousands of numbers are rendered faster so than one by one.
    ids: str


@dataclass(frozen=True, slots=True)
class Reading:
    """Rows that were read, oldest first within a bucket; nothing is said of who sends them."""

    rows: Sequence[Row]
    parts: Sequence[Part]


def as_reading(rows: Sequence[Row]) -> Reading:
    """Return rows with the parts into which they fall; those of a bucket follow one another."""
    places = groupby(rows, key=itemgetter(ROW_TOPIC, ROW_BUCKET))
    parts = [Part(topic, bucket, ",".join([str(row[ROW_ID]) for row in part])) for (topic, bucket), part in places]
    return Reading(rows, parts)


def bytes_of(rows: Sequence[Row]) -> int:
    """Return how many bytes the keys and values of rows have."""
    return sum(len(row[ROW_VALUE] or b"") + len(row[ROW_KEY] or b"") for row in rows)
