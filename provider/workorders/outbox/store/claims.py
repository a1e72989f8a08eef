"""Batches of a shard: claimed under a number before anything is sent, deleted once they are known to be in Kafka."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.exceptions import OutboxContradictionError
from workorders.outbox.store import holds
from workorders.outbox.store.backlog import ROW_BUCKET, ROW_ID, ROW_TOPIC, BatchRequest, Row, read_rows
from workorders.outbox.store.leases import LEASE_SECONDS, Lease, fenced, require_lease

_QUERIES = load_queries("workorders.outbox.store", "sql/claims.sql", blocks_from="sql/holds.sql")

_ACCEPT_ANY_CHECKPOINT: Final = -1


@dataclass(frozen=True, slots=True)
class ClaimedBatch:
    """Rows that are sent together, oldest first."""

    number: int
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedBatch:
    """A batch that is known to be in Kafka."""

    #: 0 if a hold without messages ends.
    number: int
    #: How many rows per topic were left out because the batch has a later one of their key.
    compacted: Mapping[str, int] = field(default_factory=dict)
    #: A hold that ends with it, because its messages were sent.
    ended_hold: int | None = None


def complete(connection: Connection, lease: Lease, completed: CompletedBatch) -> None:
    """Delete a batch that is in Kafka."""
    with connection.transaction():
        _next_batch_number(connection, lease, completed)


def complete_and_claim(
    connection: Connection, lease: Lease, completed: CompletedBatch | None, request: BatchRequest
) -> ClaimedBatch | None:
    """Delete the batch before, if any, then read and claim the next one in one transaction; None without a message."""
    with connection.transaction():
        number = _next_batch_number(connection, lease, completed)
        if request.hold_id is not None:
            rows = holds.take_oldest(connection, request.hold_id)
        else:
            holds.divert(connection, lease.buckets, max_messages=request.max_messages)
            rows = read_rows(connection, lease.buckets, request)
        _write_claim(connection, lease, number, rows)
    return ClaimedBatch(number, rows) if rows else None


def complete_and_claim_again(
    connection: Connection, lease: Lease, completed: CompletedBatch | None, rows: Sequence[Row]
) -> ClaimedBatch:
    """Delete the batch before, if there is one, give the open batch back, and claim a part of it."""
    with connection.transaction():
        number = _next_batch_number(connection, lease, completed)
        drop_claims_of_shard(connection, lease.shard)
        _write_claim(connection, lease, number, rows)
    return ClaimedBatch(number, rows)


def drop_claims(connection: Connection, lease: Lease) -> None:
    """Give the open batches of a shard back, which are known not to be in Kafka.

    A message of a held key, which was being retried, returns to its hold.
    """
    with connection.transaction():
        require_lease(connection, lease)
        drop_claims_of_shard(connection, lease.shard)


def drop_claims_of_shard(connection: Connection, shard: int) -> None:
    """Give the open batches of a shard back; the caller has its lease, or has locked the shard without a lease."""
    connection.execute(_QUERIES["drop_claims"], {"shard": shard})


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
        number, messages, known = fetch_row(connection, _QUERIES["open_batch"], {"shard": lease.shard})
    found = checkpoint or 0
    if number == found:
        complete(connection, lease, CompletedBatch(number=number))
        return messages, True
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
            accepted = {"shard": lease.shard, "epoch": lease.epoch, "batch": found}
            connection.execute(_QUERIES["accept_checkpoint"], accepted)
    if number is not None:
        drop_claims(connection, lease)
    return messages, False


def _next_batch_number(connection: Connection, lease: Lease, completed: CompletedBatch | None) -> int:
    """Take the next number, and with it the right to write; delete the batch before."""
    row = connection.execute(
        _QUERIES["next_batch_number"],
        {
            "shard": lease.shard,
            "epoch": lease.epoch,
            "seconds": LEASE_SECONDS,
            "completed": (completed.number or None) if completed else None,
        },
    ).fetchone()
    if row is None:
        raise fenced(lease)
    if completed is not None:
        _delete(connection, lease, completed)
    return int(row[0])


def _delete(connection: Connection, lease: Lease, completed: CompletedBatch) -> None:
    connection.execute(_QUERIES["delete_sent"], {"shard": lease.shard, "batch": completed.number})
    for topic, compacted in completed.compacted.items():
        connection.execute(_QUERIES["count_compacted"], {"topic": topic, "shard": lease.shard, "compacted": compacted})
    if completed.ended_hold is not None:
        holds.end_after_retry(connection, completed.ended_hold, was_sent=bool(completed.number))


def _write_claim(connection: Connection, lease: Lease, number: int, rows: Sequence[Row]) -> None:
    ids: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for row in rows:
        ids[row[ROW_TOPIC], row[ROW_BUCKET]].append(row[ROW_ID])
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
