"""How far the triggers were behind their topics in the last hours, what came, and what was ingested.

It is what the listeners saw, and wrote down with the counts of the ledger.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from workorders.core.history.workload_history import INTERVAL, INTERVALS
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.kafka.status", "sql/trigger_history.sql")

_RATE_INTERVALS: Final = 2
"""The newest intervals, of which a rate is the mean."""

_Looks = Mapping[int, tuple[int, int, int]]
"""By interval, 0 for the newest: the lag, and the offsets that came and the messages ingested since the look before."""


@dataclass(frozen=True, slots=True)
class TriggerHistory:
    """The last hours of one trigger by interval, the oldest first."""

    lags: Sequence[int | None]
    """Offsets without a work order at the last look of the interval; None if the listener did not look."""
    ingested: Sequence[int]
    """Messages that became work orders, were rejected, or were left out by the filter."""
    arrived_per_minute: float | None
    """Mean number of offsets that came in the last two intervals; None if the listener did not look then and before."""
    ingested_per_minute: float | None
    """Mean number of messages that were ingested in the same time."""


def list_histories(connection: Connection, now: datetime) -> Mapping[str, TriggerHistory]:
    """Return the history of every trigger whose listener looked within the last hours, by the trigger's name."""
    arguments = {"now": now, "interval": INTERVAL, "intervals": INTERVALS}
    found: dict[str, dict[int, tuple[int, int, int]]] = {}
    for trigger, ago, *look in connection.execute(_QUERIES["by_interval"], arguments):
        found.setdefault(trigger, {})[ago] = (look[0], look[1], look[2])
    return {trigger: _history(looks) for trigger, looks in found.items() if min(looks) < INTERVALS}


def _history(looks: _Looks) -> TriggerHistory:
    oldest_first = [looks.get(ago) for ago in reversed(range(INTERVALS))]
    arrived = ingested = None
    if {0, _RATE_INTERVALS} <= looks.keys():
        recent = [look for look in oldest_first[-_RATE_INTERVALS:] if look is not None]
        minutes = _RATE_INTERVALS * INTERVAL.total_seconds() / 60
        arrived = sum(look[1] for look in recent) / minutes
        ingested = sum(look[2] for look in recent) / minutes
    return TriggerHistory(
        [None if look is None else look[0] for look in oldest_first],
        [0 if look is None else look[2] for look in oldest_first],
        arrived,
        ingested,
    )
