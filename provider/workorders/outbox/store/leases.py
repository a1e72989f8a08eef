"""Who works on a shard: a lease with an epoch, by the database's clock.

The lease keeps two relays from getting in each other's way. What makes a stale one harmless is the epoch: every write
for a shard names it, and changes nothing with an older one.
"""

from dataclasses import dataclass
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.exceptions import OutboxFencedError
from workorders.outbox.store.settings import buckets_of

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
    #: Those of the shard.
    buckets: list[int]


def take(
    connection: Connection, shard: int, owner: str, *, shards: int = 1, seconds: float = LEASE_SECONDS
) -> Lease | None:
    """Take the lease of a shard among so many; None when somebody else holds it."""
    with connection.transaction():
        row = connection.execute(_QUERIES["lease"], {"shard": shard, "owner": owner, "seconds": seconds}).fetchone()
    return Lease(shard, row[0], buckets_of(shard, shards)) if row else None


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


def note_error(connection: Connection, lease: Lease, error: str) -> None:
    """Say with which error the work on a shard ended; does nothing when the lease is somebody else's by now."""
    with connection.transaction():
        connection.execute(_QUERIES["note_error"], {"shard": lease.shard, "epoch": lease.epoch, "error": error})


def clear_error(connection: Connection, lease: Lease) -> None:
    """Say that the shard works; does nothing when the lease is somebody else's by now."""
    with connection.transaction():
        connection.execute(_QUERIES["clear_error"], {"shard": lease.shard, "epoch": lease.epoch})


def hold_shard(connection: Connection, lease: Lease) -> None:
    """Make the caller's transaction one that the lease covers.

    Raises:
        OutboxFencedError: the lease is somebody else's by now.
    """
    if connection.execute(_QUERIES["hold_shard"], {"shard": lease.shard, "epoch": lease.epoch}).fetchone() is None:
        raise fenced(lease)


def fenced(lease: Lease) -> OutboxFencedError:
    """Return what is raised when a lease turns out to be lost."""
    return OutboxFencedError(
        f"Another relay has taken shard {lease.shard} of the outbox since epoch {lease.epoch}; this one changed "
        f"nothing and goes on with other shards."
    )
