"""Batches of a shard: claimed under a number before anything is sent, deleted once it is known that they were sent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.store.leases import LEASE_SECONDS, Lease, fenced, hold_shard
from workorders.outbox.store.rows import ROW_BUCKET, ROW_ID, ROW_TOPIC, Part, Reading, Row, as_reading

_QUERIES = load_queries("workorders.outbox.store", "sql/relay.sql")
_ORDER: Final = itemgetter(ROW_TOPIC, ROW_BUCKET, ROW_ID)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that are sent together."""

    number: int
    rows: Sequence[Row]
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class OpenClaim:
    """A batch of which it is not known here whether it was sent."""

    number: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A batch that is known to be in Kafka."""

    #: 0 where a hold ends of which nothing was left to send.
    number: int
    #: How many rows of a topic were left out because a later one of their key went along.
    compacted: Mapping[str, int] = field(default_factory=dict)
    #: A hold that ends with it, for what was held has been sent.
    ended_hold: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the next batch may hold."""

    messages: int
    bytes: int
    #: This topic alone, held or not.
    only: str | None = None
    #: No message of these.
    without: Sequence[str] = ()
    #: The oldest message of this held key alone.
    hold: int | None = None
    #: Whether the events' ids are needed, which take their time to read.
    event_ids: bool = False

    def arguments(self, buckets: Sequence[int]) -> dict[str, Any]:
        """Return what the queries are asked with."""
        return {
            "buckets": list(buckets),
            "messages": self.messages,
            "bytes": self.bytes,
            "only": self.only,
            "without": list(self.without),
            "event_ids": self.event_ids,
        }


def is_anything_waiting(connection: Connection, buckets: Sequence[int]) -> bool:
    """Say whether there is something to send, or to try again. Writes nothing, so that looking often costs little."""
    with connection.transaction():
        row = connection.execute(_QUERIES["anything"], {"buckets": list(buckets)}).fetchone()
    return bool(row and row[0])


def advance(
    connection: Connection, lease: Lease, *, sent: Sent | None, wanted: Wanted | None, keep_sent: bool
) -> Batch | None:
    """Delete a batch that was sent and claim the next one, in one transaction.

    Args:
        connection: the relay's.
        lease: of the shard.
        sent: the batch to delete, if there is one.
        wanted: what the next one may hold; None claims nothing.
        keep_sent: whether what is deleted is kept for a time.

    Returns:
        The batch; None when nothing waits that is wanted.

    Raises:
        OutboxFencedError: the lease is somebody else's by now; nothing was changed.
    """
    with connection.transaction():
        number = _begin(connection, lease, sent, keep_sent=keep_sent)
        if wanted is None:
            return None
        reading = _read_for_claim(connection, lease, wanted)
        _write_claim(connection, lease, number, reading)
    return Batch(number, reading.rows, reading.parts) if reading.rows else None


def claim(connection: Connection, lease: Lease, *, sent: Sent | None, reading: Reading, keep_sent: bool) -> Batch:
    """Delete a batch that was sent and claim what was read ahead while it was under way, in one transaction.

    Raises:
        OutboxFencedError: the lease is somebody else's by now; nothing was changed.
    """
    with connection.transaction():
        number = _begin(connection, lease, sent, keep_sent=keep_sent)
        _write_claim(connection, lease, number, reading)
    return Batch(number, reading.rows, reading.parts)


def drop_claims(connection: Connection, lease: Lease) -> None:
    """Give the open batches of a shard back: they are known not to be in Kafka, or may be sent again.

    A message of a held key, which was being tried again, steps aside once more.

    Raises:
        OutboxFencedError: the lease is somebody else's by now; nothing was changed.
    """
    with connection.transaction():
        hold_shard(connection, lease)
        connection.execute(_QUERIES["drop_claims"], {"shard": lease.shard})


def _begin(connection: Connection, lease: Lease, sent: Sent | None, *, keep_sent: bool) -> int:
    """Take the next number, and with it the right to write; delete what was sent."""
    row = connection.execute(
        _QUERIES["take_number"],
        {
            "shard": lease.shard,
            "epoch": lease.epoch,
            "seconds": LEASE_SECONDS,
            "sent_batch": (sent.number or None) if sent else None,
        },
    ).fetchone()
    if row is None:
        raise fenced(lease)
    if sent is not None:
        _finish(connection, lease, sent, keep_sent=keep_sent)
    return int(row[0])


def _finish(connection: Connection, lease: Lease, sent: Sent, *, keep_sent: bool) -> None:
    arguments = {"shard": lease.shard, "batch": sent.number}
    if keep_sent:
        connection.execute(_QUERIES["keep_sent"], arguments)
    connection.execute(_QUERIES["finish"], arguments)
    for topic, compacted in sent.compacted.items():
        connection.execute(_QUERIES["count_compacted"], {"topic": topic, "shard": lease.shard, "compacted": compacted})
    if sent.ended_hold is not None:
        _end_hold(connection, sent.ended_hold, any_sent=bool(sent.number))


def _end_hold(connection: Connection, hold: int, *, any_sent: bool) -> None:
    found = connection.execute(_QUERIES["lock_hold"], {"hold": hold}).fetchone()
    if found is None:
        return
    connection.execute(_QUERIES["rows_come_back"], {"hold": hold})
    connection.execute(_QUERIES["end_hold"], {"hold": hold})
    kind, topic = found
    if kind == "key" and any_sent:
        # A topic that takes the message of a key is none to be held.
        connection.execute(_QUERIES["end_hold_of_topic"], {"topic": topic})


def _read_for_claim(connection: Connection, lease: Lease, wanted: Wanted) -> Reading:
    if wanted.hold is not None:
        with connection.cursor(binary=True) as cursor:
            cursor.execute(_QUERIES["claim_head_of_held"], {"hold": wanted.hold})
            return as_reading(cursor.fetchall())
    connection.execute(_QUERIES["divert"], {"buckets": lease.buckets, "messages": wanted.messages})
    # Rows as plain tuples, and in binary, for there are many.
    with connection.cursor(binary=True) as cursor:
        rows = cursor.execute(_QUERIES["read"], wanted.arguments(lease.buckets)).fetchall()
    # They come as Postgres finds them: with very many held keys it may join these in another order. It would have to
    # write large rows to its disk to sort them.
    return as_reading(sorted(rows, key=_ORDER))


def _write_claim(connection: Connection, lease: Lease, number: int, reading: Reading) -> None:
    place = {"shard": lease.shard, "batch": number}
    with connection.cursor() as cursor:
        cursor.executemany(
            _QUERIES["write_claim"],
            [{**place, "topic": part.topic, "bucket": part.bucket, "ids": f"{{{part.ids}}}"} for part in reading.parts],
        )
