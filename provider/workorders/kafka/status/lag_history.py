"""How far the triggers were behind their topics in each interval of the last hours, from what the listeners saw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.kafka.status.throughput import INTERVAL, INTERVALS

_QUERIES = load_queries("workorders.kafka.status", "sql/lag_history.sql")


@dataclass(frozen=True, slots=True)
class LagHistory:
    """The lag of one trigger by interval, the oldest first."""

    lags: Sequence[int | None]
    """Offsets without a work order at the last look of the interval; None if the listener did not look."""
    arrived_per_minute: float | None
    """Mean number of offsets that came in the last two intervals; None if the listener looked in only one of them."""


def list_lags(connection: Connection, now: datetime) -> Mapping[str, LagHistory]:
    """Return the history of every trigger whose listener looked within the last hours, by the trigger's name."""
    arguments = {"now": now, "interval": INTERVAL, "intervals": INTERVALS}
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for trigger, ago, lag, last_stable in connection.execute(_QUERIES["by_interval"], arguments):
        found.setdefault(trigger, {})[ago] = (lag, last_stable)
    return {trigger: _history(looks) for trigger, looks in found.items()}


def _history(looks: Mapping[int, tuple[int, int]]) -> LagHistory:
    lags = [looks[ago][0] if ago in looks else None for ago in reversed(range(INTERVALS))]
    if 0 not in looks or 2 not in looks:  # noqa: PLR2004 - two intervals before the newest
        return LagHistory(lags, None)
    # The end of a topic that was re-created is before the old one's.
    return LagHistory(lags, max(looks[0][1] - looks[2][1], 0) / (2 * INTERVAL.total_seconds() / 60))
