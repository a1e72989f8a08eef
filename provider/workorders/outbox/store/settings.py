"""What all relays of an outbox agree on: its id, limits, and into how many shards it is divided."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from psycopg.rows import class_row

from workorders.core.exceptions import ConfigurationError
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.outbox.store", "sql/relay.sql")

BUCKETS: Final = 16
"""Into so many buckets the keys are divided, for good; shards are made of whole buckets."""


@dataclass(frozen=True, slots=True)
class OutboxSettings:
    """The settings in force."""

    outbox_id: str
    max_message_bytes: int
    retention_seconds: int
    #: Grows with every change of the number of shards.
    generation: int
    shards: int
    #: Where the last markers of shards lie: no destination of messages.
    markers_topics: Sequence[str]

    def buckets(self, shard: int) -> list[int]:
        """Return the buckets of a shard; none when the shard is not in use."""
        return buckets_of(shard, self.shards)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """What is said of one topic."""

    topic: str
    #: Send only the last message a key of those that are sent together.
    compact: bool = False
    #: What a message does that is refused for good: it holds its key, or it is set aside alone.
    on_refused: str = "hold"
    max_message_bytes: int | None = None


def buckets_of(shard: int, shards: int) -> list[int]:
    """Return the buckets of a shard among so many; none when there is no such shard."""
    return list(range(shard, BUCKETS, shards)) if shard < shards else []


def current(connection: Connection) -> OutboxSettings:
    """Return the settings in force."""
    with connection.cursor(row_factory=class_row(OutboxSettings)) as cursor:
        found = cursor.execute(_QUERIES["settings"]).fetchone()
    if found is None:  # cannot be: the migration made the row
        raise LookupError("workorders.outbox_settings")
    return found


def marker_key(connection: Connection) -> bytes:
    """Return the key by which this outbox knows its own markers."""
    found = connection.execute(_QUERIES["marker_key"]).fetchone()
    if found is None:  # cannot be: the migration made the row
        raise LookupError("workorders.outbox_secrets")
    return bytes(found[0])


def save(
    connection: Connection,
    *,
    max_message_bytes: int,
    retention_seconds: int,
    topics: Sequence[TopicSettings],
    only_listed_topics: bool = False,
) -> None:
    """Write down what a definition says of messages and topics; writes nothing that is there already."""
    connection.execute(
        _QUERIES["save_settings"],
        {
            "max_message_bytes": max_message_bytes,
            "retention_seconds": retention_seconds,
            "only_listed_topics": only_listed_topics,
        },
    )
    for topic in topics:
        connection.execute(
            _QUERIES["save_topic"],
            {
                "topic": topic.topic,
                "compact": topic.compact,
                "on_refused": topic.on_refused,
                "max_message_bytes": topic.max_message_bytes,
            },
        )
    connection.execute(_QUERIES["forget_topics"], {"topics": [topic.topic for topic in topics]})


def change_shards(connection: Connection, shards: int) -> bool:
    """Divide the outbox into another number of shards, in the caller's transaction; say whether that is a change.

    From the commit on nothing is claimed until a relay has settled every shard of the old division: its producer
    fenced, its open batch deleted or given back. So no message is lost, sent twice or overtaken.

    Raises:
        ConfigurationError: the number is not between 1 and 16.
    """
    if not 1 <= shards <= BUCKETS:
        raise ConfigurationError(f"shards: expected 1 to {BUCKETS}; got {shards}.")
    connection.execute(_QUERIES["lock_shards"])
    if current(connection).shards == shards:
        return False
    row = connection.execute(_QUERIES["change_shards"], {"shards": shards}).fetchone()
    connection.execute(_QUERIES["pass_on_unused_shards"], {"generation": row[0] if row else 0})
    return True
