"""Settles the batch that an earlier relay left, by the checkpoint in Kafka."""

from typing import NamedTuple

from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.exceptions import OutboxContradictionError
from workorders.outbox.store.claims import CompletedBatch, complete, drop_claims
from workorders.outbox.store.leases import Lease, require_lease

_QUERIES = load_queries("workorders.outbox.store", "sql/recovery.sql")

_ACCEPT_ANY_CHECKPOINT = -1


class Settled(NamedTuple):
    """How many messages an earlier relay had in flight, and how many of them are in Kafka."""

    in_flight: int
    in_kafka: int


def settle_claims(connection: Connection, lease: Lease, checkpoint: int | None) -> Settled:
    """Delete the open batch if it is in Kafka, and give it back otherwise.

    Args:
        connection: the relay's.
        lease: of the shard, whose old producer has been fenced, so that no later checkpoint can appear.
        checkpoint: number of the batch in the last checkpoint of the shard; None if there is none.

    Raises:
        OutboxContradictionError: checkpoint and database contradict each other; nothing was changed.
    """
    shard = {"shard": lease.shard}
    with connection.transaction():
        number, messages, known = fetch_row(connection, _QUERIES["open_batch"], shard)
    found = checkpoint or 0
    if number == found:
        complete(connection, lease, CompletedBatch(number=number))
        return Settled(messages, messages)
    # If no batch is open, none depends on the old checkpoints, so the checkpoint topic may have been re-created.
    if known not in {found, _ACCEPT_ANY_CHECKPOINT} and (number is not None or found > known):
        raise OutboxContradictionError(
            f"Shard {lease.shard} of the outbox is stalled: its last checkpoint in Kafka is of batch "
            f"{found or 'none'}; the database knows of {known or 'none'}, and its open batch is {number or 'none'} "
            f"with {messages} messages. One of the two was restored or deleted, or another copy of the database sends "
            f"with the same id. Nothing was sent or deleted. Look into the topics, then run `workorders outbox release "
            f"--shard {lease.shard}` with --sent or --unsent."
        )
    if found != known:
        with connection.transaction():
            require_lease(connection, lease)
            connection.execute(_QUERIES["accept_checkpoint"], {**shard, "epoch": lease.epoch, "batch": found})
    if number is not None:
        drop_claims(connection, lease)
    return Settled(messages, 0)
