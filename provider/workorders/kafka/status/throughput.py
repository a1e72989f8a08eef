"""How many messages the triggers have ingested in each interval of the last hours, from the finished ranges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.kafka.status", "sql/throughput.sql")

SPAN: Final = timedelta(hours=6)
INTERVAL: Final = timedelta(minutes=10)
INTERVALS: Final = SPAN // INTERVAL
_LONGEST_BATCH: Final = timedelta(hours=6)
"""A range that finished within the span counts if its batch was planned at most this long before the span."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """Messages of one trigger by interval, the oldest first."""

    ingested: Sequence[int]
    """Messages that became work orders, were rejected, or were left out by the filter."""

    @property
    def per_minute(self) -> float:
        """Return the mean rate of the last complete interval and the current one."""
        return sum(self.ingested[-2:]) / (2 * INTERVAL.total_seconds() / 60)


def list_throughput(connection: Connection, now: datetime) -> Mapping[str, Throughput]:
    """Return the throughput of every trigger that ingested anything within the last hours, by the trigger's name."""
    arguments = {
        "now": now,
        "since": now - SPAN,
        "planned_since": now - SPAN - _LONGEST_BATCH,
        "seconds": INTERVAL.total_seconds(),
    }
    counts: dict[str, list[int]] = {}
    for trigger, ago, messages in connection.execute(_QUERIES["by_interval"], arguments):
        counts.setdefault(trigger, [0] * INTERVALS)[max(INTERVALS - 1 - ago, 0)] += messages
    return {trigger: Throughput(ingested) for trigger, ingested in counts.items()}
