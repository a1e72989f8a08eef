"""Settles the batches that an earlier relay left, by the checkpoint in Kafka."""

from collections.abc import Sequence
from typing import NamedTuple

from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.exceptions import OutboxContradictionError
from workorders.outbox.store.claims import CompletedBatch, complete, drop_claims
from workorders.outbox.store.leases import Lease, require_lease

_QUERIES = load_queries("workorders.outbox.store", "sql/recovery.sql")

ACCEPT_ANY_CHECKPOINT = -1


class OpenClaim(NamedTuple):
    """A batch that may or may not have been sent, as far as the database knows."""

    number: int
    messages: int


class Settled(NamedTuple):
    """How many messages earlier relays had in flight, and how many of them are in Kafka."""

    in_flight: int
    in_kafka: int


def settle_claims(connection: Connection, lease: Lease, checkpoint: int | None, *, keep_sent: bool) -> Settled:
    """Delete the open batch that is in Kafka, and give back the others.

    Args:
        connection: the relay's.
        lease: of the shard, whose old producer has been fenced.
        checkpoint: number of the batch in the last checkpoint of the shard; None if there is none.
        keep_sent: whether deleted rows are kept in the log of sent messages.

    Raises:
        OutboxContradictionError: checkpoint and database contradict each other; nothing was changed.
    """
    shard = {"shard": lease.shard}
    with connection.transaction():
        claims = [OpenClaim(*row) for row in connection.execute(_QUERIES["open_claims"], shard)]
        (known,) = fetch_row(connection, _QUERIES["checkpoint_batch"], shard)
    found = checkpoint or 0
    sent = _find_committed(claims, found, known, lease)
    if sent is not None:
        complete(connection, lease, CompletedBatch(number=sent.number, keep=keep_sent))
    elif found != known:
        with connection.transaction():
            require_lease(connection, lease)
            connection.execute(_QUERIES["accept_checkpoint"], {**shard, "epoch": lease.epoch, "batch": found})
    if any(claim is not sent for claim in claims):
        drop_claims(connection, lease)
    return Settled(sum(claim.messages for claim in claims), sent.messages if sent else 0)


def _find_committed(claims: Sequence[OpenClaim], found: int, known: int, lease: Lease) -> OpenClaim | None:
    """Return the open batch that is in Kafka; None if none of them is.

    Args:
        claims: the open batches of the shard.
        found: number of the batch in the last checkpoint, 0 if there is none. It was read after the old producer was
            fenced, so no later one can appear.
        known: the last batch that the database knows to be in Kafka; 0 if there is none.
        lease: of the shard.
    """
    if known == ACCEPT_ANY_CHECKPOINT:
        return None
    for claim in claims:
        if claim.number == found:
            return claim
    # Where no batch is open, none depends on the old checkpoints, so the checkpoint topic may have been re-created.
    if found == known or (found < known and not claims):
        return None
    numbers = ", ".join(str(claim.number) for claim in claims) or "none"
    raise OutboxContradictionError(
        f"Shard {lease.shard} of the outbox is stalled: its last checkpoint in Kafka is of batch {found or 'none'}; "
        f"the database knows of {known or 'none'} and has open batches {numbers} with "
        f"{sum(claim.messages for claim in claims)} messages. One of the two was restored or deleted, or another copy "
        f"of the database sends with the same id. Nothing was sent or deleted. Look into the topics, then run "
        f"`workorders outbox release --shard {lease.shard}` with --sent or --unsent."
    )
