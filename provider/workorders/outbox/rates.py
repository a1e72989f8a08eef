"""How many messages enter and leave the outbox, and how long they take."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from workorders.core.history.workload_history import INTERVAL, INTERVALS, SPAN
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.deletion import delete_before
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.outbox", "sql/rates.sql", blocks_from="store/sql/backlog.sql")

_MINUTES: Final = INTERVAL.total_seconds() / 60
_KEPT: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ShardRate:
    """What the relay of a shard has sent, by interval, the oldest first."""

    sent: Sequence[int]
    delays: Sequence[float | None]
    """The longest time in seconds from enqueueing to sending; None if nothing was sent."""

    @property
    def per_minute(self) -> float:
        """Return the mean rate of the last complete interval and the current one."""
        return sum(self.sent[-2:]) / (2 * _MINUTES)

    @property
    def delay_seconds(self) -> float | None:
        """Return the longest delay of the last complete interval and the current one; None if nothing was sent."""
        return max((delay for delay in self.delays[-2:] if delay is not None), default=None)


@dataclass(frozen=True, slots=True)
class OutboxRates:
    """What enters and leaves the outbox."""

    by_shard: Mapping[int, ShardRate]
    """No entry for a shard that has sent nothing in the last hours."""
    enqueued_per_minute: float | None
    """Mean rate since some minutes ago; None if nothing was sent before, or the statistics of Postgres were reset."""
    oldest_at: datetime | None
    """When the oldest message that waits or is held was enqueued; None if there is none."""

    @property
    def sent(self) -> Sequence[int]:
        """Return what all shards have sent, by interval, the oldest first."""
        return [sum(counts) for counts in zip(*(rate.sent for rate in self.by_shard.values()), strict=True)]

    @property
    def sent_per_minute(self) -> float:
        """Return the mean rate of all shards."""
        return sum(rate.per_minute for rate in self.by_shard.values())

    @property
    def delay_seconds(self) -> float | None:
        """Return the longest delay of all shards in the last minutes; None if nothing was sent."""
        known = (rate.delay_seconds for rate in self.by_shard.values())
        return max((delay for delay in known if delay is not None), default=None)


def read_rates(connection: Connection, now: datetime) -> OutboxRates:
    """Return the rates up to now. Reads one waiting message per topic and bucket."""
    since = now - SPAN
    sent: dict[int, list[int]] = {}
    delays: dict[int, list[float | None]] = {}
    arguments = {"now": now, "since": since, "seconds": INTERVAL.total_seconds()}
    for shard, ago, count, delay in connection.execute(_QUERIES["by_interval"], arguments):
        place = INTERVALS - 1 - ago
        sent.setdefault(shard, [0] * INTERVALS)[place] = count
        delays.setdefault(shard, [None] * INTERVALS)[place] = delay
    (oldest_at,) = fetch_row(connection, _QUERIES["oldest"], {})
    rates = {shard: ShardRate(counts, delays[shard]) for shard, counts in sorted(sent.items())}
    return OutboxRates(rates, _enqueued_per_minute(connection, since, now), oldest_at)


def delete_old_minutes(connection: Connection, now: datetime) -> Iterator[None]:
    """Delete the rows that are older than a day, in steps; see `delete_before`."""
    return delete_before(connection, _QUERIES["delete_old"], now - _KEPT)


def _enqueued_per_minute(connection: Connection, since: datetime, now: datetime) -> float | None:
    row = connection.execute(_QUERIES["enqueued"], {"since": since, "before": now - INTERVAL}).fetchone()
    # Fewer than before: the statistics were reset.
    return None if row is None or row[0] < 0 else float(row[0] / row[1] * 60)
