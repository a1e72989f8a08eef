"""What cannot be sent now, held alone: a topic, a key, or a message that was set aside. Never deleted unsent."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.store.leases import Lease, hold_shard
from workorders.outbox.store.rows import OutboxRow

_QUERIES = load_queries("workorders.outbox.store", "sql/relay.sql")


@dataclass(frozen=True, slots=True)
class DueHold:
    """A hold whose time for another try has come."""

    id: int
    kind: str
    topic: str
    tries: int


def due(connection: Connection, buckets: Sequence[int]) -> list[DueHold]:
    """Return the holds whose time has come, those waiting longest first."""
    with connection.transaction(), connection.cursor(row_factory=class_row(DueHold)) as cursor:
        return cursor.execute(_QUERIES["due_holds"], {"buckets": list(buckets)}).fetchall()


def hold_topic(connection: Connection, lease: Lease, topic: str, reason: str) -> None:
    """Give the open batch back and hold a topic for a minute, longer with every failure.

    Raises:
        OutboxFencedError: the lease is somebody else's by now; nothing was changed.
    """
    with connection.transaction():
        hold_shard(connection, lease)
        connection.execute(_QUERIES["drop_claims"], {"shard": lease.shard})
        connection.execute(_QUERIES["hold_topic"], {"topic": topic, "reason": reason})
        connection.execute(_QUERIES["count_failed"], {"topic": topic, "shard": lease.shard, "failed": 1})


def hold_row(connection: Connection, lease: Lease, row: OutboxRow, reason: str, *, whole_key: bool) -> None:
    """Give the open batch back and put one message aside, with its key held or alone.

    Args:
        connection: the relay's.
        lease: of the message's shard.
        row: the message.
        reason: for people.
        whole_key: whether later messages of the key wait behind it.

    Raises:
        OutboxFencedError: the lease is somebody else's by now; nothing was changed.
    """
    place = {"topic": row.topic, "buckets": lease.buckets, "id": row.id}
    with connection.transaction():
        hold_shard(connection, lease)
        connection.execute(_QUERIES["drop_claims"], {"shard": lease.shard})
        connection.execute(_QUERIES["row_comes_back"], place)
        kind = "hold_key" if whole_key and row.key is not None else "hold_message"
        hold = connection.execute(_QUERIES[kind], {**place, "reason": reason}).fetchone()
        if hold is not None:
            connection.execute(_QUERIES["step_aside"], {**place, "hold": hold[0]})
        connection.execute(_QUERIES["count_failed"], {"topic": row.topic, "shard": lease.shard, "failed": 1})
