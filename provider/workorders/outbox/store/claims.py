"""Batches of a shard: claimed under a number before anything is sent, deleted once they are known to be in Kafka.

Deleted messages may be kept in the log of sent messages for a time.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.store import holds
from workorders.outbox.store.backlog import BatchRequest, read_rows
from workorders.outbox.store.leases import LEASE_SECONDS, Lease, fenced, require_lease
from workorders.outbox.store.rows import FetchedRows, group_by_bucket

_QUERIES = load_queries("workorders.outbox.store", "sql/claims.sql", blocks_from="sql/holds.sql")

_PRUNED_ROWS: Final = 5_000


@dataclass(frozen=True, slots=True)
class ClaimedBatch:
    """Rows that are sent together."""

    number: int
    content: FetchedRows


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedBatch:
    """A batch that is known to be in Kafka."""

    #: 0 if a hold without messages ends.
    number: int
    #: How many rows per topic were left out because the batch has a later one of their key.
    compacted: Mapping[str, int] = field(default_factory=dict)
    #: A hold that ends with it, because its messages were sent.
    ended_hold: int | None = None
    #: Whether its rows are kept in the log of sent messages.
    keep: bool = False


def complete(connection: Connection, lease: Lease, completed: CompletedBatch) -> None:
    """Delete a batch that is in Kafka."""
    with connection.transaction():
        _next_batch_number(connection, lease, completed)


def complete_and_claim(
    connection: Connection, lease: Lease, completed: CompletedBatch | None, request: BatchRequest
) -> ClaimedBatch | None:
    """Delete the batch before, if there is one, then read and claim the next one, in one transaction.

    Returns:
        The batch; None if no message fits the request.
    """
    with connection.transaction():
        number = _next_batch_number(connection, lease, completed)
        content = _read(connection, lease, request)
        _write_claim(connection, lease, number, content)
    return ClaimedBatch(number, content) if content.rows else None


def complete_and_claim_prefetched(
    connection: Connection, lease: Lease, completed: CompletedBatch | None, content: FetchedRows
) -> ClaimedBatch:
    """Delete the batch before, if there is one, and claim rows that were read ahead of it, in one transaction."""
    with connection.transaction():
        number = _next_batch_number(connection, lease, completed)
        _write_claim(connection, lease, number, content)
    return ClaimedBatch(number, content)


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


def prune_sent_log(connection: Connection, *, older_than: float, max_seconds: float) -> bool:
    """Delete messages that were sent more than `older_than` seconds ago from the log, oldest first and in chunks.

    After `max_seconds` no further chunk is started; return whether none is left.
    """
    deadline = time.monotonic() + max_seconds
    deleted = _PRUNED_ROWS
    while deleted == _PRUNED_ROWS and time.monotonic() <= deadline:
        with connection.transaction():
            arguments = {"seconds": older_than, "limit": _PRUNED_ROWS}
            deleted = connection.execute(_QUERIES["prune_sent_log"], arguments).rowcount
    return deleted < _PRUNED_ROWS


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
    arguments = {"shard": lease.shard, "batch": completed.number}
    if completed.keep:
        connection.execute(_QUERIES["keep_sent"], arguments)
    connection.execute(_QUERIES["delete_sent"], arguments)
    for topic, compacted in completed.compacted.items():
        connection.execute(_QUERIES["count_compacted"], {"topic": topic, "shard": lease.shard, "compacted": compacted})
    if completed.ended_hold is not None:
        holds.end_after_retry(connection, completed.ended_hold, was_sent=bool(completed.number))


def _read(connection: Connection, lease: Lease, request: BatchRequest) -> FetchedRows:
    if request.hold_id is not None:
        return group_by_bucket(holds.take_oldest(connection, request.hold_id))
    holds.divert(connection, lease.buckets, max_messages=request.max_messages)
    return read_rows(connection, lease.buckets, request)


def _write_claim(connection: Connection, lease: Lease, number: int, content: FetchedRows) -> None:
    # In one statement: Postgres does not end the transaction of a relay that is paused between those of a pipeline.
    connection.execute(
        _QUERIES["write_claim"],
        {
            "shard": lease.shard,
            "batch": number,
            "topics": [part.topic for part in content.slices],
            "buckets": [part.bucket for part in content.slices],
            "ids": [f"{{{part.ids}}}" for part in content.slices],
        },
    )
