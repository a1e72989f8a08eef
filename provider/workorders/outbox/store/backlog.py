"""Reads the backlog of a shard: messages in the order in which they are to be sent, and holds that are due."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NamedTuple

from workorders.core.postgres.connection import Connection, fetch_row, find_row
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.outbox.store", "sql/backlog.sql")

Row = tuple[int, str, bytes | None, bytes | None, list[list[Any]] | None, int | None, int | None, str | None, int]
"""An `OutboxRow` as a plain tuple, which takes the relay's innermost loops half the time to read."""
ROW_ID: Final = 0
ROW_TOPIC: Final = 1
ROW_HEADERS: Final = 4
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
    #: None unless it was requested.
    event_id: str | None
    bucket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """What the next batch may contain."""

    max_messages: int
    max_bytes: int
    #: This topic alone, held or not.
    only_topic: str | None = None
    #: The oldest message of this held key alone.
    hold_id: int | None = None
    #: Whether the events' ids are needed, which take time to read.
    with_event_ids: bool = False


@dataclass(frozen=True, slots=True)
class DueHold:
    """A hold that is due for a retry."""

    id: int
    kind: str
    topic: str


def is_anything_waiting(connection: Connection, buckets: Sequence[int]) -> bool:
    """Return whether a message can be sent or a hold is due. Writes nothing, so frequent calls are cheap."""
    with connection.transaction():
        return bool(fetch_row(connection, _QUERIES["is_anything_waiting"], {"buckets": list(buckets)})[0])


def next_due_hold(connection: Connection, buckets: Sequence[int]) -> DueHold | None:
    """Return the hold that has been due for longest; None if none is due."""
    with connection.transaction():
        return find_row(connection, DueHold, _QUERIES["next_due_hold"], {"buckets": list(buckets)})


def read_rows(connection: Connection, buckets: Sequence[int], request: BatchRequest) -> list[Row]:
    """Return the rows of one batch, oldest first."""
    arguments = {
        "buckets": list(buckets),
        "messages": request.max_messages,
        "bytes": request.max_bytes,
        "only": request.only_topic,
        "event_ids": request.with_event_ids,
    }
    # Rows as plain tuples, and in binary, because there are many.
    with connection.cursor(binary=True) as cursor:
        rows: list[Any] = cursor.execute(_QUERIES["read"], arguments).fetchall()
    # Postgres returns them as it finds them: with very many held keys it may join these in another order. Sorting large
    # rows in Postgres would write them to its disk.
    return sorted(rows, key=itemgetter(ROW_ID))
