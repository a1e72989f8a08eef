"""Batches of a shard: claimed under a number before anything is sent, deleted once they are known to be in Kafka."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.exceptions import OutboxContradictionError
from workorders.outbox.store import holds
from workorders.outbox.store.backlog import BatchRequest, DueHold, OutboxRow, read_rows
from workorders.outbox.store.leases import LEASE_SECONDS, Lease, fenced, renew

_QUERIES = load_queries("workorders.outbox.store", "sql/claims.sql", blocks_from="sql/holds.sql")

_ACCEPT_ANY_CHECKPOINT: Final = -1


@dataclass(frozen=True, slots=True)
class ClaimedBatch:
    """Rows that are sent together, oldest first."""

    number: int
    rows: Sequence[OutboxRow]
    #: The hold that is retried by them.
    due: DueHold | None = None


def claim(connection: Connection, lease: Lease, request: BatchRequest) -> ClaimedBatch | None:
    """Read and claim the next batch in one transaction; None without a message.

    Holds that are due come first, and one without messages ends.
    """
    with connection.transaction():
        number = _next_batch_number(connection, lease)
        connection.execute(_QUERIES["divert"], {"buckets": lease.buckets, "messages": request.max_messages})
        while True:
            due, rows = read_rows(connection, lease.buckets, request)
            if rows or due is None:
                break
            holds.release(connection, due.id)
        _write_claim(connection, lease, number, rows)
    return ClaimedBatch(number, rows, due) if rows else None


def claim_again(connection: Connection, lease: Lease, rows: Sequence[OutboxRow]) -> ClaimedBatch:
    """Give the open batch back, and claim a part of it."""
    with connection.transaction():
        number = _next_batch_number(connection, lease)
        holds.drop_claims(connection, lease.shard)
        _write_claim(connection, lease, number, rows)
    return ClaimedBatch(number, rows)


def complete(connection: Connection, lease: Lease, batch: ClaimedBatch, compacted: Mapping[str, int]) -> None:
    """Delete a batch that is in Kafka, and end the hold that was retried by it.

    `compacted` is how many rows per topic were left out because the batch has a later one of their key.
    """
    with connection.transaction():
        _record_checkpoint(connection, lease, batch.number)
        connection.execute(_QUERIES["delete_sent"], {"shard": lease.shard, "batch": batch.number})
        for topic, rows in compacted.items():
            connection.execute(_QUERIES["count_compacted"], {"topic": topic, "shard": lease.shard, "compacted": rows})
        if batch.due is not None:
            holds.release(connection, batch.due.id)
            connection.execute(_QUERIES["end_hold_of_topic"], {"topic": batch.due.topic})


def settle_claims(connection: Connection, lease: Lease, checkpoint: int | None) -> tuple[int, bool]:
    """Delete the open batch if it is in Kafka, and give it back otherwise.

    The shard's old producer has been fenced, so that no later checkpoint can appear. `checkpoint` is the number of its
    last batch in Kafka; None if there is none.

    Returns:
        How many messages an earlier relay had in flight, and whether they are in Kafka.

    Raises:
        OutboxContradictionError: checkpoint and database contradict each other; nothing was changed.
    """
    with connection.transaction():
        renew(connection, lease)
        number, messages, known = fetch_row(connection, _QUERIES["open_batch"], {"shard": lease.shard})
        found = checkpoint or 0
        if number == found:
            complete(connection, lease, ClaimedBatch(number, ()), {})
            return messages, True
        # If no batch is open, none depends on the old checkpoints, so the checkpoint topic may have been re-created.
        if known not in {found, _ACCEPT_ANY_CHECKPOINT} and (number is not None or found > known):
            raise OutboxContradictionError(
                f"Shard {lease.shard} of the outbox is stalled: its last checkpoint in Kafka is of batch "
                f"{found or 'none'}; the database knows of {known or 'none'}, and its open batch is {number or 'none'} "
                f"with {messages} messages. One of the two was restored or deleted, or another copy of the database "
                f"sends with the same id. Nothing was sent or deleted. Look into the topics, then run `workorders "
                f"outbox release --shard {lease.shard}` with --sent or --unsent."
            )
        if found != known:
            _record_checkpoint(connection, lease, found)
        holds.drop_claims(connection, lease.shard)
    return messages, False


def _next_batch_number(connection: Connection, lease: Lease) -> int:
    """Take the next number, and with it the right to claim."""
    arguments = {"shard": lease.shard, "epoch": lease.epoch, "seconds": LEASE_SECONDS}
    row = connection.execute(_QUERIES["next_batch_number"], arguments).fetchone()
    if row is None:
        raise fenced(lease)
    return int(row[0])


def _record_checkpoint(connection: Connection, lease: Lease, batch: int) -> None:
    arguments = {"shard": lease.shard, "epoch": lease.epoch, "batch": batch}
    if connection.execute(_QUERIES["record_checkpoint"], arguments).rowcount != 1:
        raise fenced(lease)


def _write_claim(connection: Connection, lease: Lease, number: int, rows: Sequence[OutboxRow]) -> None:
    ids: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for row in rows:
        ids[row.topic, row.bucket].append(row.id)
    # In one statement: Postgres does not end the transaction of a relay that is paused between those of a pipeline.
    connection.execute(
        _QUERIES["write_claim"],
        {
            "shard": lease.shard,
            "batch": number,
            "topics": [topic for topic, _ in ids],
            "buckets": [bucket for _, bucket in ids],
            # Thousands of numbers are rendered faster as one text.
            "ids": [f"{{{','.join(map(str, part))}}}" for part in ids.values()],
        },
    )
