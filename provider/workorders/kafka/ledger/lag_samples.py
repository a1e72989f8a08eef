"""What the listeners see of Kafka, one row per partition and minute: the lag, and when they looked."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.kafka.partitions import Partition

_QUERIES = load_queries("workorders.kafka.ledger", "sql/lag_samples.sql")

_KEPT: Final = timedelta(days=1)
_STEP: Final = 10_000


def record(connection: Connection, trigger: str, ends: Mapping[Partition, int]) -> None:
    """Record the last stable offsets that a listener was told.

    They replace what was recorded in the same minute. Partitions that the ledger does not know yet are left out.
    """
    partitions = list(ends)
    given = {
        "trigger": trigger,
        "topics": [partition.topic for partition in partitions],
        "topic_ids": [partition.topic_id for partition in partitions],
        "partitions": [partition.partition for partition in partitions],
        "ends": list(ends.values()),
    }
    connection.execute(_QUERIES["record"], given)


def delete_old_samples(connection: Connection, now: datetime) -> bool:
    """Delete some rows that are older than a day; return whether there may be more."""
    return connection.execute(_QUERIES["delete_old"], {"before": now - _KEPT, "limit": _STEP}).rowcount == _STEP
