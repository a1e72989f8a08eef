"""What operators see of the outbox and of the messages of a work order, and what they decide."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from workorders.core.postgres.connection import Connection, fetch_row, list_rows
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.exceptions import OutboxDecisionError
from workorders.outbox.store.holds import drop_claims, release

_QUERIES = load_queries("workorders.outbox", "sql/admin.sql", blocks_from="store/sql/backlog.sql")


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """One topic's counters. `waiting` and `oldest_seconds` are Deimos's count and max_wait."""

    topic: str
    waiting: int
    #: Age of the oldest message that waits or is held; None if there is none.
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
    #: Messages that wait for its end. Those of a topic stay where they are; those of a key or alone were moved to it.
    messages: int


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """A shard and its lease."""

    shard: int
    epoch: int
    owner: str | None
    #: Whether a relay is at work on it.
    is_leased: bool
    leased_until: datetime | None
    last_batch: int
    checkpoint_batch: int
    #: Messages of batches that were claimed and not deleted yet.
    in_flight: int
    #: With which the last relay of the shard ended; None if the shard works.
    last_error: str | None


@dataclass(frozen=True, slots=True)
class OpenTopic:
    """The part of a shard's open batch that goes to one topic."""

    topic: str
    messages: int
    oldest_at: datetime | None
    """When the first of them was enqueued; None if they were deleted."""


@dataclass(frozen=True, slots=True)
class PublishedMessage:
    """A message that a run has published."""

    run_id: UUID
    attempt: int
    """Number of the run within its work order."""
    topic: str
    event_id: UUID
    state: str
    """`waiting`, `held`, or `sent`: it has left the outbox. A message that a person has purged has left it too, and one
    that a later message of its key has replaced."""
    hold_id: int | None
    """The hold that it is in; None unless it is held."""


def topics(connection: Connection) -> Sequence[TopicStatus]:
    """Return the counters of every topic that has ever had a message. Reads every waiting row."""
    return list_rows(connection, TopicStatus, _QUERIES["topics"])


def holds(connection: Connection) -> Sequence[Hold]:
    """Return the holds."""
    return list_rows(connection, Hold, _QUERIES["holds"])


def shards(connection: Connection) -> Sequence[ShardStatus]:
    """Return the shards in use."""
    return list_rows(connection, ShardStatus, _QUERIES["shards"])


def oldest_at(connection: Connection) -> datetime | None:
    """Return when the oldest message that waits or is held was enqueued; None if there is none.

    Reads one waiting message per topic and bucket.
    """
    found: datetime | None = fetch_row(connection, _QUERIES["oldest"], {})[0]
    return found


def open_batch(connection: Connection, shard: int) -> Sequence[OpenTopic]:
    """Return the messages of a shard's open batch, by topic."""
    return list_rows(connection, OpenTopic, _QUERIES["open_batch"], {"shard": shard})


def list_published(connection: Connection, work_order_id: UUID, *, limit: int = 50) -> Sequence[PublishedMessage]:
    """Return the first messages that the runs of a work order have published, in the order of publishing."""
    arguments = {"work_order_id": work_order_id, "limit": limit}
    return list_rows(connection, PublishedMessage, _QUERIES["published"], arguments)


def release_hold(connection: Connection, hold: int) -> int:
    """End a hold; return how many of its messages go back to their place in the order.

    Raises:
        OutboxDecisionError: there is no such hold.
    """
    with connection.transaction():
        _lock_hold(connection, hold)
        return release(connection, hold)


def purge_hold(connection: Connection, hold: int, *, seen: int | None = None) -> int:
    """Delete the messages of a hold unsent, permanently, and return how many they were.

    `seen` is how many messages a person has decided about; None for all that are there now.

    Raises:
        OutboxDecisionError: there is no such hold, it holds a topic, whose messages wait where they are, or it has
            another number of messages now.
    """
    with connection.transaction():
        if _lock_hold(connection, hold) == "topic":
            raise OutboxDecisionError(
                f"Hold {hold} is of a topic, whose messages wait among the others. Nothing was deleted. Release the "
                "hold, or delete the messages of the topic from workorders.outbox_messages yourself, those without a "
                "hold_id."
            )
        messages = connection.execute(_QUERIES["purge_hold"], {"hold": hold}).rowcount
        if seen is not None and messages != seen:
            raise OutboxDecisionError(
                f"Hold {hold} has {messages:,} messages now, and not {seen:,}. Nothing was deleted. Look at it again."
            )
    return messages


def release_shard(connection: Connection, shard: int, *, sent: bool) -> int:
    """Decide whether a shard's open batch was sent, if its checkpoint cannot tell; return the number of its messages.

    They are deleted if they were sent, and sent otherwise. The next relay then accepts the checkpoint that it finds.

    Raises:
        OutboxDecisionError: a relay is at work on the shard.
    """
    arguments = {"shard": shard}
    with connection.transaction():
        if connection.execute(_QUERIES["accept_any_checkpoint"], arguments).rowcount == 0:
            raise OutboxDecisionError(
                f"Shard {shard} of the outbox has a relay at work, or does not exist. Nothing was changed. Pause the "
                f"relay's Dag, wait until its task has ended, and run this again."
            )
        (messages,) = fetch_row(connection, _QUERIES["settle_claimed"], {**arguments, "sent": sent})
        drop_claims(connection, shard)
    return int(messages)


def reset_identity(connection: Connection) -> Sequence[int]:
    """Let the next relay record another cluster, checkpoint topic, transactional-id prefix and number of shards.

    From here on, no relay that started before can claim a batch, and Kafka commits no batch without a claim. So no
    message is lost, sent twice, or overtaken. Return the shards that were released and have had no relay since. If
    there are any, the number of shards and the prefix stay, because the next relay fences the old producers by them.

    Raises:
        OutboxDecisionError: a relay is at work, or left an open batch; nothing was changed.
    """
    with connection.transaction():
        leased = [row[0] for row in connection.execute(_QUERIES["lock_shards"]).fetchall() if row[1]]
        if leased:
            raise OutboxDecisionError(
                f"A relay is at work on {_shards(leased)} of the outbox. The identity was not reset. Pause all Dags of "
                f"the relay, wait until their tasks have ended, and run this again."
            )
        open_ = [row[0] for row in connection.execute(_QUERIES["shards_with_claims"]).fetchall()]
        if open_:
            raise OutboxDecisionError(
                f"A relay left an open batch of {_shards(open_)} of the outbox, which may be in Kafka or not. The "
                f"identity was not reset. Run a relay with the former configuration once, which settles the batch; or, "
                f"if that is impossible, run `workorders outbox release --shard {open_[0]}` with --sent or --unsent."
            )
        released = [row[0] for row in connection.execute(_QUERIES["fence_all"]).fetchall() if row[1]]
        connection.execute(_QUERIES["reset_identity"], {"all": not released})
    return sorted(released)


def _shards(shards: Sequence[int]) -> str:
    return f"shard{'s' if len(shards) > 1 else ''} {', '.join(map(str, shards))}"


def _lock_hold(connection: Connection, hold: int) -> str:
    """Return the kind of a hold."""
    row = connection.execute(_QUERIES["lock_hold"], {"hold": hold}).fetchone()
    if row is None:
        raise OutboxDecisionError(f"Hold {hold} does not exist. Nothing was changed. See `workorders outbox status`.")
    return str(row[0])
