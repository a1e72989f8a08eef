"""What people see of the outbox, and what they decide."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.exceptions import OutboxDecisionError

_QUERIES = load_queries("workorders.outbox", "sql/admin.sql")
_RELAY = load_queries("workorders.outbox.store", "sql/relay.sql")


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """One topic's counters. `waiting` and `oldest_seconds` are Deimos's count and max_wait."""

    topic: str
    waiting: int
    #: Since the oldest one that waits or is held was enqueued; None when there is none.
    oldest_seconds: float | None
    held: int
    sent: int
    compacted: int
    failed: int
    last_sent_at: datetime | None


@dataclass(frozen=True, slots=True)
class Hold:
    """A topic, a key or a message that is not sent now."""

    id: int
    kind: str
    topic: str
    key: bytes | None
    reason: str
    tries: int
    since: datetime
    next_try_at: datetime | None
    #: How many messages have stepped aside; those of a topic wait where they are.
    messages: int


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """A shard and its lease."""

    shard: int
    epoch: int
    owner: str | None
    leased_until: datetime | None
    run_out: bool | None
    last_batch: int
    marked_batch: int
    #: Messages of a batch that was claimed and not deleted yet.
    under_way: int
    #: With which the last work on it ended; None when it works.
    last_error: str | None


def topics(connection: Connection) -> Sequence[TopicStatus]:
    """Return the counters of every topic that has ever had a message. Reads every row that waits."""
    with connection.cursor(row_factory=class_row(TopicStatus)) as cursor:
        return cursor.execute(_QUERIES["topics"]).fetchall()


def holds(connection: Connection) -> Sequence[Hold]:
    """Return what is held."""
    with connection.cursor(row_factory=class_row(Hold)) as cursor:
        return cursor.execute(_QUERIES["holds"]).fetchall()


def shards(connection: Connection) -> Sequence[ShardStatus]:
    """Return the shards."""
    with connection.cursor(row_factory=class_row(ShardStatus)) as cursor:
        return cursor.execute(_QUERIES["shards"]).fetchall()


def release_hold(connection: Connection, hold: int) -> int:
    """Let what is held be sent again, in its place in the order, and return how many messages come back.

    Raises:
        OutboxDecisionError: there is no such hold.
    """
    with connection.transaction():
        _lock_hold(connection, hold)
        messages = connection.execute(_RELAY["rows_come_back"], {"hold": hold}).rowcount
        connection.execute(_RELAY["end_hold"], {"hold": hold})
    return messages


def purge_hold(connection: Connection, hold: int) -> int:
    """Delete the messages of a hold unsent, for good, and return how many they were.

    Raises:
        OutboxDecisionError: there is no such hold, or it holds a topic, whose messages wait where they are.
    """
    with connection.transaction():
        if _lock_hold(connection, hold) == "topic":
            raise OutboxDecisionError(
                f"Hold {hold} is of a whole topic, whose messages wait among the others; nothing was deleted; release "
                f"it, or delete them from workorders.outbox_messages yourself."
            )
        messages = connection.execute(_QUERIES["delete_held"], {"hold": hold}).rowcount
        connection.execute(_RELAY["end_hold"], {"hold": hold})
    return messages


def release_shard(connection: Connection, shard: int, *, sent: bool) -> int:
    """Decide what became of a shard's open batch where Kafka's markers cannot tell, and return its messages' number.

    The next relay then takes the marker that it finds for the truth.

    Args:
        connection: to the database.
        shard: number of the shard.
        sent: True deletes the open batch's messages as sent, False sends them.

    Raises:
        OutboxDecisionError: a relay is at work on the shard.
    """
    place = {"shard": shard}
    with connection.transaction():
        if connection.execute(_QUERIES["lock_free_shard"], place).fetchone() is None:
            raise OutboxDecisionError(
                f"A relay is at work on shard {shard} of the outbox, or there is no such shard; nothing was changed."
            )
        row = connection.execute(_QUERIES["count_claimed"], place).fetchone()
        if sent:
            connection.execute(_QUERIES["delete_claimed"], place)
        connection.execute(_RELAY["drop_claims"], place)
        connection.execute(_QUERIES["believe_kafka"], place)
    return int(row[0]) if row else 0


def reset_identity(connection: Connection) -> Sequence[int]:
    """Let the next relay record another identity: cluster, topic of markers, transactional ids, number of shards.

    No relay that divided the keys as before can claim anything from here on, and what has no claim is never committed
    to Kafka. So no message is lost, sent twice, or overtaken.

    Returns:
        The shards that were released and had no relay since. While there are such, the number of shards and the
        transactional ids stay as they are: the next relay has to fence the old producers by them.

    Raises:
        OutboxDecisionError: a relay is at work, or has left a batch; nothing was changed.
    """
    with connection.transaction():
        leased = [row[0] for row in connection.execute(_QUERIES["lock_shards"]).fetchall() if row[1]]
        if leased:
            raise OutboxDecisionError(
                f"A relay is at work on {_shards(leased)} of the outbox; nothing was changed. Pause all Dags of the "
                f"relay, wait until their tasks have ended, and run this again."
            )
        left = [row[0] for row in connection.execute(_QUERIES["shards_with_claims"]).fetchall()]
        if left:
            raise OutboxDecisionError(
                f"A relay has left a batch of {_shards(left)} of the outbox, and it is not known whether it was sent; "
                f"nothing was changed. Let a relay run once as it was configured before, so that it settles the batch; "
                f"or, if that cannot be, decide by `workorders outbox release --shard {left[0]}` with --sent or "
                f"--unsent."
            )
        released = [row[0] for row in connection.execute(_QUERIES["fence_all"]).fetchall() if row[1]]
        connection.execute(_QUERIES["reset_identity"], {"all": not released})
    return sorted(released)


def _shards(shards: Sequence[int]) -> str:
    return f"shard{'s' if len(shards) > 1 else ''} {', '.join(map(str, shards))}"


def _lock_hold(connection: Connection, hold: int) -> str:
    # Whoever moves a message aside waits for this lock, and then finds the hold gone.
    row = connection.execute(_QUERIES["lock_hold"], {"hold": hold}).fetchone()
    if row is None:
        raise OutboxDecisionError(f"There is no hold {hold}; nothing was changed; see `workorders outbox status`.")
    return str(row[0])
