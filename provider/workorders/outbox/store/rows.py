"""Waiting messages as they are read, in the order in which they are to be sent."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NamedTuple

Row = tuple[int, str, bytes | None, bytes | None, list[list[Any]] | None, int | None, int | None, str | None, int]
"""An `OutboxRow` as it comes from the database: the relay's innermost loops spare themselves half of reading it so."""
ROW_ID: Final = 0
ROW_TOPIC: Final = 1
ROW_KEY: Final = 2
ROW_VALUE: Final = 3
ROW_HEADERS: Final = 4
ROW_PARTITION: Final = 5
ROW_BUCKET: Final = 8

_ID: Final = itemgetter(ROW_ID)
_KEY: Final = itemgetter(ROW_KEY)
_VALUE: Final = itemgetter(ROW_VALUE)
_HEADERS: Final = itemgetter(ROW_HEADERS)


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
    parts, start = [], 0
    while start < len(rows):
        topic, bucket = place = place_of(rows[start])
        # Looking for the last one of the bucket takes a few steps, where comparing all of them takes thousands.
        end = bisect_left(rows, True, start, key=lambda row: place_of(row) != place)
        parts.append(Part(topic, bucket, ",".join(map(str, ids_of(rows[start:end])))))
        start = end
    return Reading(rows, parts)


def bytes_of(rows: Sequence[Row]) -> int:
    """Return how many bytes the keys, values and headers of rows have."""
    size = sum(sum(map(len, filter(None, map(column, rows)))) for column in (_KEY, _VALUE))
    return size + sum(map(_header_bytes, filter(None, map(_HEADERS, rows))))


def text_of(value: Any) -> str | None:
    """Return the text of a header's value: its own, or the base64 of bytes, which stands under a name of its own.

    Whoever wrote the header may have put more beside it, or a number in its place: PostgreSQL takes both.
    """
    return str(value["base64"]) if isinstance(value, dict) else value


def ids_of(rows: Sequence[Row]) -> list[int | None]:
    """Return the ids of rows; None where one was left out."""
    return list(map(_ID, rows))


def place_of(row: Row) -> tuple[str, int]:
    """Return topic and bucket of a row."""
    return row[ROW_TOPIC], row[ROW_BUCKET]


def _header_bytes(headers: Sequence[Sequence[Any]]) -> int:
    return sum(len(name) + len(text_of(value) or "") for name, value in headers)
