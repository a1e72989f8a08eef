"""Who works on a shard: a lease with an epoch, by the database's clock.

The lease keeps two relays from getting in each other's way. What makes a stale one harmless is the epoch: every write
for a shard names it, and changes nothing with an older one.
"""

from dataclasses import dataclass
from typing import Final

from psycopg.rows import class_row

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.exceptions import OutboxFencedError

_QUERIES = load_queries("workorders.outbox.store", "sql/relay.sql")

LEASE_SECONDS: Final = 15.0
SESSION: Final = {"idle_in_transaction_session_timeout": "10s", "enable_bitmapscan": "off"}
"""A relay that stands still inside a transaction holds its shard's row; that must end before its lease does.
All that it reads is in the order of an index; where statistics are old, a bitmap and a sort can look cheaper."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A shard that is ours until somebody takes it with a higher epoch."""

    shard: int
    epoch: int
    generation: int
    last_batch: int
    #: The last batch whose marker is known to be in Kafka; 0 while there is none, -1 when it is to be learned.
    marked_batch: int


def take(connection: Connection, shard: int, owner: str, *, seconds: float = LEASE_SECONDS) -> Lease | None:
    """Take the lease of a shard; None when somebody else holds it."""
    with connection.transaction(), connection.cursor(row_factory=class_row(Lease)) as cursor:
        return cursor.execute(_QUERIES["lease"], {"shard": shard, "owner": owner, "seconds": seconds}).fetchone()


def renew(connection: Connection, lease: Lease, *, seconds: float = LEASE_SECONDS) -> None:
    """Keep the lease.

    Raises:
        OutboxFencedError: it is somebody else's by now.
    """
    arguments = {"shard": lease.shard, "epoch": lease.epoch, "seconds": seconds}
    with connection.transaction():
        if connection.execute(_QUERIES["renew"], arguments).rowcount != 1:
            raise fenced(lease)


def release(connection: Connection, lease: Lease) -> None:
    """Give the lease back; does nothing when it is somebody else's by now."""
    with connection.transaction():
        connection.execute(_QUERIES["release"], {"shard": lease.shard, "epoch": lease.epoch})


def unsettled(connection: Connection) -> list[int]:
    """Return the shards that were not settled since the number of shards changed."""
    with connection.transaction():
        return [row[0] for row in connection.execute(_QUERIES["unsettled_shards"]).fetchall()]


def settle(connection: Connection, lease: Lease) -> None:
    """Say that nothing of this shard is under way any more, so that it may follow the number of shards in force.

    Raises:
        OutboxFencedError: the lease is somebody else's by now.
    """
    with connection.transaction():
        if connection.execute(_QUERIES["settle"], {"shard": lease.shard, "epoch": lease.epoch}).rowcount != 1:
            raise fenced(lease)


def note_error(connection: Connection, lease: Lease, error: str) -> None:
    """Say with which error the work on a shard ended; does nothing when the lease is somebody else's by now."""
    with connection.transaction():
        connection.execute(_QUERIES["note_error"], {"shard": lease.shard, "epoch": lease.epoch, "error": error})


def clear_error(connection: Connection, lease: Lease) -> None:
    """Say that the shard works; does nothing when the lease is somebody else's by now."""
    with connection.transaction():
        connection.execute(_QUERIES["clear_error"], {"shard": lease.shard, "epoch": lease.epoch})


def fenced(lease: Lease) -> OutboxFencedError:
    """Return what is raised when a lease turns out to be lost."""
    return OutboxFencedError(
        f"Another relay has taken shard {lease.shard} of the outbox since epoch {lease.epoch}; this one changed "
        f"nothing and goes on with other shards."
    )
