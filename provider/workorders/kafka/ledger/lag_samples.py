"""What the listeners see of Kafka, one row per partition and minute: the lag, and when they looked."""

from collections.abc import Iterator, Mapping
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


def delete_old_samples(connection: Connection, now: datetime) -> Iterator[None]:
    """Delete the rows that are older than a day, some per step, so that each statement holds its locks briefly.

    Yields:
        For each step. The caller commits before it asks for the next one.
    """
    asked = {"before": now - _KEPT, "limit": _STEP}
    is_done = False
    while not is_done:
        is_done = connection.execute(_QUERIES["delete_old"], asked).rowcount < _STEP
        yield
