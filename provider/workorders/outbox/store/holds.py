"""What cannot be sent now is held alone: a topic, a key, or a single message. It is never deleted unsent."""

from collections.abc import Sequence
from typing import Any

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.store.backlog import OutboxRow, Row
from workorders.outbox.store.leases import Lease, require_lease

_QUERIES = load_queries("workorders.outbox.store", "sql/holds.sql")


def hold_topic(connection: Connection, lease: Lease, topic: str, reason: str) -> None:
    """Hold a topic for a minute, longer with every failure; none of its messages may be claimed."""
    with connection.transaction():
        require_lease(connection, lease)
        connection.execute(_QUERIES["hold_topic"], {"topic": topic, "reason": reason, "shard": lease.shard})


def hold_message(connection: Connection, lease: Lease, row: OutboxRow, reason: str, *, with_key: bool) -> None:
    """Hold one message, which may not be claimed; with its key, later messages of the key wait for it.

    A message without a key is held alone.
    """
    kind = "key" if with_key and row.key is not None else "message"
    message = {"topic": row.topic, "buckets": [row.bucket, ~row.bucket], "id": row.id, "shard": lease.shard}
    with connection.transaction():
        require_lease(connection, lease)
        connection.execute(_QUERIES["hold_message"], {**message, "kind": kind, "reason": reason})


def divert(connection: Connection, buckets: Sequence[int], *, max_messages: int) -> None:
    """Move rows of held keys out of the way of a batch, in the caller's transaction."""
    connection.execute(_QUERIES["divert"], {"buckets": list(buckets), "messages": max_messages})


def take_oldest(connection: Connection, hold_id: int) -> list[Row]:
    """Move the oldest message of a hold back for a retry, in the caller's transaction, and return its row."""
    with connection.cursor(binary=True) as cursor:
        rows: list[Any] = cursor.execute(_QUERIES["take_oldest"], {"hold": hold_id}).fetchall()
        return rows


def end_after_retry(connection: Connection, hold_id: int, *, was_sent: bool) -> None:
    """End a hold whose retry succeeded, in the caller's transaction; a no-op if an operator has ended it.

    It succeeded because a message of the hold was sent, or because none was left.
    """
    found = lock(connection, hold_id)
    if found is None:
        return
    release(connection, hold_id)
    kind, topic = found
    if kind == "key" and was_sent:
        # A topic that takes the message of a key must not be held.
        connection.execute(_QUERIES["end_hold_of_topic"], {"topic": topic})


def lock(connection: Connection, hold_id: int) -> tuple[str, str] | None:
    """Return kind and topic of a hold, or None if it has ended.

    A relay that moves a message to the hold waits until the caller's transaction ends.
    """
    return connection.execute(_QUERIES["lock_hold"], {"hold": hold_id}).fetchone()


def release(connection: Connection, hold_id: int) -> int:
    """End a hold: move its messages back to their place in the order, and return how many they are."""
    return connection.execute(_QUERIES["release_hold"], {"hold": hold_id}).rowcount
