"""How many work orders came and waited in the last hours, by trigger and by workflow.

They are counted by interval when work orders are counted by state, so that a page reads some rows and no work order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from workorders.core.ids import first_id
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.history", "sql/workload_history.sql")

SPAN: Final = timedelta(hours=6)
INTERVAL: Final = timedelta(minutes=10)
INTERVALS: Final = SPAN // INTERVAL
RATE_SPAN: Final = 2 * INTERVAL
"""Minimum time of which a rate is the mean."""
_LATE: Final = 2 * INTERVAL
"""Intervals before the newest one are counted again, because a transaction commits what it created some time ago."""
_CLOCKS: Final = timedelta(minutes=1)
"""Assumed maximum difference between the clocks of Postgres and of those who make ids."""
_KEPT: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class WorkHistory:
    """The last hours of a trigger or a workflow by interval, the oldest first."""

    waiting: Sequence[int | None]
    """Work orders that waited for a run at the last count of the interval; None if nothing was counted then."""
    created: Sequence[int | None]
    """Work orders that were created; None after the last count."""
    created_per_minute: float | None
    """Mean of the newest intervals; None if the last count is old."""


class Count(NamedTuple):
    """What was counted in an interval, for a trigger and a workflow."""

    trigger: str
    workflow: str
    begins_at: datetime
    counted_at: datetime
    created: int
    waiting: int | None


@dataclass(slots=True)
class _Sums:
    waiting: dict[datetime, int] = field(default_factory=dict)
    created: dict[datetime, int] = field(default_factory=dict)

    def add(self, count: Count) -> None:
        self.created[count.begins_at] = self.created.get(count.begins_at, 0) + count.created
        if count.waiting is not None:
            self.waiting[count.begins_at] = self.waiting.get(count.begins_at, 0) + count.waiting


class WorkHistories:
    """The last hours of all triggers and workflows.

    Args:
        counts: of these hours.
        now: the end of the hours.
    """

    def __init__(self, counts: Iterable[Count], now: datetime) -> None:
        self._triggers: dict[str, _Sums] = {}
        self._workflows: dict[str, _Sums] = {}
        self._all = _Sums()
        self._now = now
        self._counted_at: datetime | None = None
        for count in counts:
            for sums in (
                self._all,
                self._triggers.setdefault(count.trigger, _Sums()),
                self._workflows.setdefault(count.workflow, _Sums()),
            ):
                sums.add(count)
            self._counted_at = max(count.counted_at, self._counted_at or count.counted_at)

    def of_trigger(self, name: str) -> WorkHistory | None:
        """Return the history of a trigger; None if nothing was counted in these hours."""
        return self._history(self._triggers, name)

    def of_workflow(self, name: str) -> WorkHistory | None:
        """Return the history of a workflow; None if nothing was counted in these hours."""
        return self._history(self._workflows, name)

    def _history(self, of: Mapping[str, _Sums], name: str) -> WorkHistory | None:
        if self._counted_at is None:
            return None
        found, last = of.get(name, _Sums()), begin_of(self._counted_at)
        begins = [begin_of(self._now) - ago * INTERVAL for ago in reversed(range(INTERVALS))]
        return WorkHistory(
            [found.waiting.get(begin, 0) if begin in self._all.waiting else None for begin in begins],
            [found.created.get(begin, 0) if begin <= last else None for begin in begins],
            self._per_minute(found.created, self._counted_at),
        )

    def _per_minute(self, created: Mapping[datetime, int], counted_at: datetime) -> float | None:
        if self._now - counted_at > RATE_SPAN:
            return None
        begin = begin_of(counted_at) - RATE_SPAN
        newest = sum(number for begins_at, number in created.items() if begins_at >= begin)
        return newest / ((counted_at - begin) / timedelta(minutes=1))


def begin_of(time: datetime) -> datetime:
    """Return when the interval of a time began."""
    seconds = INTERVAL.total_seconds()
    return datetime.fromtimestamp(time.timestamp() // seconds * seconds, UTC)


def record(connection: Connection) -> None:
    """Add what was created since the last count, and what waits by the counts by state, in a transaction of its own.

    The first count goes back as far as the pages do.
    """
    with connection.transaction():
        newest, now = fetch_row(connection, _QUERIES["newest"], {})
        oldest = begin_of(now) - SPAN
        since = oldest if newest is None else max(newest - _LATE, oldest)
        counted = {"interval": INTERVAL, "since": since, "first_id": first_id(since - _CLOCKS)}
        connection.execute(_QUERIES["record"], counted)
        connection.execute(_QUERIES["forget"], {"before": now - _KEPT})


def list_histories(connection: Connection, now: datetime) -> WorkHistories:
    """Return the last hours."""
    rows = connection.execute(_QUERIES["counts"], {"since": begin_of(now) - SPAN})
    return WorkHistories((Count(*row) for row in rows), now)
