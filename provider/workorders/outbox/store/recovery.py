"""What becomes of the batches that an earlier relay left: decided by the marker that Kafka holds."""

from collections.abc import Sequence

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.exceptions import OutboxContradictionError
from workorders.outbox.store.claims import OpenClaim, Sent, advance, drop_claims
from workorders.outbox.store.leases import Lease, hold_shard

_QUERIES = load_queries("workorders.outbox.store", "sql/relay.sql")

TAKE_WHAT_IS_THERE = -1


def sent_of(claims: Sequence[OpenClaim], marker: int | None, marked_batch: int, lease: Lease) -> OpenClaim | None:
    """Return the open batch that Kafka has; None when it has none of them.

    Pure: Kafka was asked after its old producer was fenced, so the marker is the last word.

    Args:
        claims: the open batches of the shard.
        marker: number of the last marker of the shard; None when there is none.
        marked_batch: the last batch whose marker is known to be in Kafka; 0 while there is none.
        lease: of the shard.

    Raises:
        OutboxContradictionError: the marker is neither that of an open batch nor the last one known.
    """
    found = marker or 0
    if marked_batch == TAKE_WHAT_IS_THERE:
        return None
    for claim in claims:
        if claim.number == found:
            return claim
    if found == marked_batch:
        return None
    if found < marked_batch and not claims:
        # The topic of markers was made anew; nothing is under way, so nothing depends on the old ones.
        return None
    raise OutboxContradictionError(_sentence(claims, found, marked_batch, lease))


def settle_claims(connection: Connection, lease: Lease, marker: int | None, *, keep_sent: bool) -> int:
    """Delete the batch that Kafka has, give back what it has not, and return how many messages were deleted.

    Args:
        connection: the relay's.
        lease: of the shard, whose old producer has been fenced.
        marker: number of the last marker of the shard; None when there is none.
        keep_sent: whether what is deleted is kept for a time.

    Raises:
        OutboxContradictionError: marker and database do not fit together; nothing was changed.
        OutboxFencedError: the lease is somebody else's by now; nothing was changed.
    """
    claims = open_claims(connection, lease)
    marked_batch = _marked_batch(connection, lease)
    sent = sent_of(claims, marker, marked_batch, lease)
    if sent is not None:
        advance(connection, lease, sent=Sent(number=sent.number), wanted=None, keep_sent=keep_sent)
    elif (marker or 0) != marked_batch:
        with connection.transaction():
            hold_shard(connection, lease)
            connection.execute(
                _QUERIES["accept_marker"], {"shard": lease.shard, "epoch": lease.epoch, "batch": marker or 0}
            )
    if any(claim is not sent for claim in claims):
        drop_claims(connection, lease)
    return sent.messages if sent else 0


def open_claims(connection: Connection, lease: Lease) -> list[OpenClaim]:
    """Return the batches of a shard that an earlier relay left, or this one before its producer was lost."""
    with connection.transaction():
        found = connection.execute(_QUERIES["open_claims"], {"shard": lease.shard}).fetchall()
    return [OpenClaim(*row) for row in found]


def _marked_batch(connection: Connection, lease: Lease) -> int:
    with connection.transaction():
        return int(connection.execute(_QUERIES["marked_batch"], {"shard": lease.shard}).fetchall()[0][0])


def _sentence(claims: Sequence[OpenClaim], found: int, marked_batch: int, lease: Lease) -> str:
    numbers = ", ".join(str(claim.number) for claim in claims) or "none"
    messages = sum(claim.messages for claim in claims)
    return (
        f"Shard {lease.shard} of the outbox stands still: the last batch that Kafka has of it is {found or 'none'}, "
        f"where the database knows of {marked_batch or 'none'} and has open batches {numbers} with {messages} "
        f"messages. One of them was restored or deleted, or another copy of the database sends with the same id. "
        f"Nothing was sent or deleted; decide by `workorders outbox release --shard {lease.shard}` with --sent or "
        f"--unsent."
    )
