"""The lease of a shard, with an epoch, by the database's clock.

The lease keeps two relays off the same shard. The epoch makes a stale relay harmless: every write for a shard names it,
and changes nothing with an older one. So each function of this package that writes under a lease raises
`OutboxFencedError` if another relay has it, and has then changed nothing.
"""

from dataclasses import dataclass
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.exceptions import OutboxFencedError

_QUERIES = load_queries("workorders.outbox.store", "sql/leases.sql")

BUCKETS: Final = 16
"""Number of buckets among which keys are divided. It never changes; shards consist of whole buckets."""
LEASE_SECONDS: Final = 15.0
SESSION: Final = {"idle_in_transaction_session_timeout": "10s", "enable_bitmapscan": "off"}
"""A relay that is paused inside a transaction has its shard's row locked; that must end before its lease does.
All that it reads is in the order of an index; with old statistics, a bitmap and a sort can look cheaper."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A shard that is ours until another relay takes it with a higher epoch."""

    shard: int
    epoch: int
    #: Those of the shard.
    buckets: list[int]


def buckets_of(shard: int, shards: int) -> list[int]:
    """Return the buckets of a shard."""
    return list(range(shard, BUCKETS, shards))


def take(connection: Connection, shard: int, owner: str, *, shards: int = 1) -> Lease | None:
    """Take the lease of a shard; return None if another relay has it."""
    arguments = {"shard": shard, "owner": owner, "seconds": LEASE_SECONDS}
    with connection.transaction():
        row = connection.execute(_QUERIES["lease"], arguments).fetchone()
    return Lease(shard, row[0], buckets_of(shard, shards)) if row else None


def renew(connection: Connection, lease: Lease) -> None:
    """Renew the lease, and make sure that it lasts until the caller's transaction ends."""
    arguments = {"shard": lease.shard, "epoch": lease.epoch, "seconds": LEASE_SECONDS}
    with connection.transaction():
        if connection.execute(_QUERIES["renew"], arguments).rowcount != 1:
            raise fenced(lease)


def release(connection: Connection, lease: Lease) -> None:
    """Give the lease back; a no-op if it was lost."""
    with connection.transaction():
        connection.execute(_QUERIES["release"], {"shard": lease.shard, "epoch": lease.epoch})


def record_error(connection: Connection, lease: Lease, error: str | None) -> None:
    """Record the error with which the work on a shard ended, or None if it works; a no-op if the lease was lost."""
    with connection.transaction():
        connection.execute(_QUERIES["record_error"], {"shard": lease.shard, "epoch": lease.epoch, "error": error})


def fenced(lease: Lease) -> OutboxFencedError:
    """Return the error of a lost lease."""
    return OutboxFencedError(
        f"Another relay has taken shard {lease.shard} of the outbox since epoch {lease.epoch}; this one changed "
        f"nothing there. There is nothing to do: a newer relay sends the shard's messages."
    )
