"""What a relay's file says of messages and topics, for whoever enqueues; and how the keys are divided."""

from collections.abc import Mapping
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.outbox.store", "sql/relay.sql")

BUCKETS: Final = 16
"""Into so many buckets the keys are divided, for good; shards are made of whole buckets."""


def buckets_of(shard: int, shards: int) -> list[int]:
    """Return the buckets of a shard among so many."""
    return list(range(shard, BUCKETS, shards))


def save(
    connection: Connection,
    *,
    max_message_bytes: int,
    topics: Mapping[str, int | None],
    only_listed_topics: bool = False,
) -> None:
    """Write down what a definition says of messages and topics; writes nothing that is there already.

    Args:
        connection: the relay's.
        max_message_bytes: largest message.
        topics: those that are listed, with the largest message of each where it has a limit of its own.
        only_listed_topics: whether messages may be sent to no others.
    """
    connection.execute(
        _QUERIES["save_settings"],
        {"max_message_bytes": max_message_bytes, "only_listed_topics": only_listed_topics},
    )
    for topic, limit in topics.items():
        connection.execute(_QUERIES["save_topic"], {"topic": topic, "max_message_bytes": limit})
    connection.execute(_QUERIES["forget_topics"], {"topics": list(topics)})
