"""Settles the batches that an earlier relay left, by the checkpoint in Kafka."""

from collections.abc import Sequence
from dataclasses import dataclass

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.exceptions import OutboxContradictionError
from workorders.outbox.store.claims import CompletedBatch, complete, drop_claims
from workorders.outbox.store.leases import Lease, require_lease

_QUERIES = load_queries("workorders.outbox.store", "sql/recovery.sql")

ACCEPT_ANY_CHECKPOINT = -1


@dataclass(frozen=True, slots=True)
class OpenClaim:
    """A batch that may or may not have been sent, as far as the database knows."""

    number: int
    messages: int


def find_committed(
    claims: Sequence[OpenClaim], checkpoint: int | None, checkpoint_batch: int, lease: Lease
) -> OpenClaim | None:
    """Return the open batch that is in Kafka; None if none of them is.

    Pure. The checkpoint was read after the old producer was fenced, so no later one can appear.

    Args:
        claims: the open batches of the shard.
        checkpoint: number of the batch in the last checkpoint of the shard; None if there is none.
        checkpoint_batch: the last batch that the database knows to be in Kafka; 0 if there is none.
        lease: of the shard.

    Raises:
        OutboxContradictionError: the checkpoint is neither of an open batch nor the last known one.
    """
    found = checkpoint or 0
    if checkpoint_batch == ACCEPT_ANY_CHECKPOINT:
        return None
    for claim in claims:
        if claim.number == found:
            return claim
    if found == checkpoint_batch:
        return None
    if found < checkpoint_batch and not claims:
        # The checkpoint topic was re-created. No batch is open, so none depends on the old checkpoints.
        return None
    raise OutboxContradictionError(_contradiction(claims, found, checkpoint_batch, lease))


def settle_claims(connection: Connection, lease: Lease, checkpoint: int | None, *, keep_sent: bool) -> int:
    """Delete the open batch that is in Kafka, give back the others, and return how many messages were deleted.

    Args:
        connection: the relay's.
        lease: of the shard, whose old producer has been fenced.
        checkpoint: number of the batch in the last checkpoint of the shard; None if there is none.
        keep_sent: whether deleted rows are kept in the log of sent messages.

    Raises:
        OutboxContradictionError: checkpoint and database contradict each other; nothing was changed.
        OutboxFencedError: another relay has the lease; nothing was changed.
    """
    claims = open_claims(connection, lease)
    checkpoint_batch = _checkpoint_batch(connection, lease)
    sent = find_committed(claims, checkpoint, checkpoint_batch, lease)
    if sent is not None:
        complete(connection, lease, CompletedBatch(number=sent.number, keep=keep_sent))
    elif (checkpoint or 0) != checkpoint_batch:
        with connection.transaction():
            require_lease(connection, lease)
            connection.execute(
                _QUERIES["accept_checkpoint"], {"shard": lease.shard, "epoch": lease.epoch, "batch": checkpoint or 0}
            )
    if any(claim is not sent for claim in claims):
        drop_claims(connection, lease)
    return sent.messages if sent else 0


def open_claims(connection: Connection, lease: Lease) -> list[OpenClaim]:
    """Return the batches that an earlier relay left, or this one before its producer was lost."""
    with connection.transaction():
        found = connection.execute(_QUERIES["open_claims"], {"shard": lease.shard}).fetchall()
    return [OpenClaim(*row) for row in found]


def _checkpoint_batch(connection: Connection, lease: Lease) -> int:
    with connection.transaction():
        return int(connection.execute(_QUERIES["checkpoint_batch"], {"shard": lease.shard}).fetchall()[0][0])


def _contradiction(claims: Sequence[OpenClaim], found: int, checkpoint_batch: int, lease: Lease) -> str:
    numbers = ", ".join(str(claim.number) for claim in claims) or "none"
    messages = sum(claim.messages for claim in claims)
    return (
        f"Shard {lease.shard} of the outbox is stalled: its last checkpoint in Kafka is of batch {found or 'none'}; "
        f"the database knows of {checkpoint_batch or 'none'} and has open batches {numbers} with {messages} messages. "
        f"One of the two was restored or deleted, or another copy of the database sends with the same id. Nothing was "
        f"sent or deleted. Look into the topics, then run `workorders outbox release --shard {lease.shard}` with "
        f"--sent or --unsent."
    )
