"""What the listeners see of Kafka, one row per partition and minute: the lag, and when they looked."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, LiteralString

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.kafka.partitions import Partition

_QUERIES = load_queries("workorders.kafka.ledger", "sql/lag_samples.sql")

_KEPT: Final = timedelta(days=1)
_STEP: Final = 10_000


def record_statement(trigger: str, ends: Mapping[Partition, int]) -> tuple[LiteralString, dict[str, Any]]:
    """Return the statement, and its arguments, that records the last stable offsets which a listener was told.

    It replaces what was recorded in the same minute. Partitions that the ledger does not know yet are left out.
    """
    partitions = list(ends)
    return _QUERIES["record"], {
        "trigger": trigger,
        "topics": [partition.topic for partition in partitions],
        "topic_ids": [partition.topic_id for partition in partitions],
        "partitions": [partition.partition for partition in partitions],
        "ends": list(ends.values()),
    }


def delete_old_samples(connection: Connection, now: datetime) -> bool:
    """Delete some rows that are older than a day; return whether there may be more."""
    return connection.execute(_QUERIES["delete_old"], {"before": now - _KEPT, "limit": _STEP}).rowcount == _STEP
