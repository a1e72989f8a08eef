"""What cannot be sent now is held alone: a topic, a key, or a single message. It is never deleted unsent."""

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.store.backlog import OutboxRow
from workorders.outbox.store.leases import Lease, renew

_QUERIES = load_queries("workorders.outbox.store", "sql/holds.sql")


def hold_topic(connection: Connection, lease: Lease, topic: str, reason: str) -> None:
    """Give the open batch back, and hold a topic for a minute, longer with every failure.

    None of its messages may be claimed.
    """
    with connection.transaction():
        renew(connection, lease)
        drop_claims(connection, lease.shard)
        connection.execute(_QUERIES["hold_topic"], {"topic": topic, "reason": reason, "shard": lease.shard})


def hold_message(connection: Connection, lease: Lease, row: OutboxRow, reason: str, *, with_key: bool) -> None:
    """Give the open batch back, and hold one message, which may not be claimed.

    With its key, later messages of the key wait for it. A message without a key is held alone.
    """
    kind = "key" if with_key and row.key is not None else "message"
    message = {"topic": row.topic, "buckets": [row.bucket, ~row.bucket], "id": row.id, "shard": lease.shard}
    with connection.transaction():
        renew(connection, lease)
        drop_claims(connection, lease.shard)
        connection.execute(_QUERIES["hold_message"], {**message, "kind": kind, "reason": reason})


def drop_claims(connection: Connection, shard: int) -> None:
    """Give the open batch of a shard back, which is known not to be in Kafka; the caller has locked the shard.

    A message of a held key, which was being retried, returns to its hold.
    """
    connection.execute(_QUERIES["drop_claims"], {"shard": shard})


def release(connection: Connection, hold_id: int) -> int:
    """End a hold: move its messages back to their place in the order, and return how many they are."""
    return connection.execute(_QUERIES["release_hold"], {"hold": hold_id}).rowcount
