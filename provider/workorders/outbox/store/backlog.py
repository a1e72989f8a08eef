"""Reads the backlog of a shard: messages in the order in which they are to be sent, and holds that are due."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from workorders.core.postgres.connection import Connection, fetch_row, find_row
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.outbox.store", "sql/backlog.sql")


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
    """What a batch may contain."""

    max_messages: int
    max_bytes: int
    #: Whether the events' ids are needed, which take time to read.
    with_event_ids: bool = False


@dataclass(frozen=True, slots=True)
class DueHold:
    """A hold that is due for a retry, which consists of one message."""

    id: int
    kind: str
    topic: str


def is_anything_waiting(connection: Connection, buckets: Sequence[int]) -> bool:
    """Return whether a message can be sent or a hold is due. Writes nothing, so frequent calls are cheap."""
    with connection.transaction():
        return bool(fetch_row(connection, _QUERIES["is_anything_waiting"], {"buckets": list(buckets)})[0])


def read_rows(
    connection: Connection, buckets: list[int], request: BatchRequest
) -> tuple[DueHold | None, list[OutboxRow]]:
    """Return the hold that has been due for longest, with the row with which it is retried, if it still has one.

    If none is due, return the rows of one batch, oldest first. The row of a held key leaves its hold, in the caller's
    transaction.
    """
    due = find_row(connection, DueHold, _QUERIES["next_due_hold"], {"buckets": buckets})
    arguments = {
        "buckets": buckets,
        "messages": 1 if due else request.max_messages,
        "bytes": request.max_bytes,
        "only": due.topic if due else None,
        "hold": due.id if due else None,
        "event_ids": request.with_event_ids,
    }
    # In binary, because there are many.
    with connection.cursor(binary=True) as cursor:
        query = _QUERIES["take_oldest" if due and due.kind == "key" else "read"]
        rows = cursor.execute(query, arguments).fetchall()
        # Postgres returns them as it finds them: with very many held keys it may join these in another order. Sorting
        # large rows in Postgres would write them to its disk.
        return due, sorted(map(OutboxRow._make, rows), key=attrgetter("id"))
