"""The part of a relay's file that `enqueue` obeys, and how keys are divided among shards."""

from collections.abc import Mapping
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.outbox.store", "sql/settings.sql")

BUCKETS: Final = 16
"""Number of buckets among which keys are divided. It never changes; shards consist of whole buckets."""


def buckets_of(shard: int, shards: int) -> list[int]:
    """Return the buckets of a shard."""
    return list(range(shard, BUCKETS, shards))


def save(
    connection: Connection,
    *,
    max_message_bytes: int,
    topics: Mapping[str, int | None],
    only_listed_topics: bool = False,
) -> None:
    """Store limits and topics; writes nothing that is stored already.

    Args:
        connection: the relay's.
        max_message_bytes: maximum size of a message.
        topics: the listed topics, each with its own maximum size or None.
        only_listed_topics: whether messages may be sent to listed topics only.
    """
    connection.execute(
        _QUERIES["save_settings"],
        {"max_message_bytes": max_message_bytes, "only_listed_topics": only_listed_topics},
    )
    for topic, limit in topics.items():
        connection.execute(_QUERIES["save_topic"], {"topic": topic, "max_message_bytes": limit})
    connection.execute(_QUERIES["delete_unlisted_topics"], {"topics": list(topics)})
