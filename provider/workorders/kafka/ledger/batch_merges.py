"""Merges finished batches that follow one another: old ones, and the small ones that a task took from a trickle.

A merged batch has the ranges of several batches of one trigger as one range per partition, so a replay of any of them
finds its messages there. It has the number of the last one and remembers that of the first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.kafka.definition.trigger import DEFAULT_MERGE_BATCHES_AFTER_DAYS
from workorders.kafka.ledger.attempt_lock import try_exclude_attempts
from workorders.kafka.ledger.batches import mark_handed_over

_QUERIES = load_queries("workorders.kafka.ledger", "sql/batch_merges.sql")

MAX_OFFSETS: Final = 1_000_000
"""Maximum number of offsets of a merged batch, so that its replay takes minutes. There are at most as many messages."""
_STEP: Final = 500
"""Batches of one step, each of which needs one of the some 6,400 locks that Postgres has by default."""


class Log(NamedTuple):
    """Where offsets mean the same messages: a partition of a topic with its id, until its log is truncated."""

    topic: str
    partition: int
    topic_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Mergeable:
    """A batch that may be merged."""

    id: int
    ranges: Mapping[Log, tuple[int, int]]
    """Offsets `[start, end)` by log."""
    can_merge: bool = True
    """Whether all ranges finished long enough ago, and no attempt at the batch is running."""
    filter: str | None = None
    """Filter of the batch, as JSON; None if it has none."""

    @property
    def offsets(self) -> int:
        """Return the number of offsets of all ranges."""
        return sum(end - start for start, end in self.ranges.values())


def groups(batches: Iterable[Mergeable], max_offsets: int) -> list[list[int]]:
    """Return the numbers of the batches that become one, at least two of each.

    Each partition's ranges in a group follow one another without a gap and without an overlap, and the batches of a
    group have one filter.

    Args:
        batches: consecutive batches of one trigger, in the order of their numbers.
        max_offsets: maximum number of offsets of a group.
    """
    found: list[list[int]] = []
    ids: list[int] = []
    ends: dict[tuple[str, int], tuple[Log, int]] = {}
    offsets, filter_ = 0, None
    for batch in batches:
        follows = all(ends.get(log[:2], (log, start)) == (log, start) for log, (start, _) in batch.ranges.items())
        has_filter = batch.filter == filter_
        if not (ids and batch.can_merge and follows and has_filter and offsets + batch.offsets <= max_offsets):
            ids, ends, offsets, filter_ = [], {}, 0, batch.filter
            found.append(ids)
        if batch.can_merge:
            ids.append(batch.id)
            ends |= {log[:2]: (log, end) for log, (_, end) in batch.ranges.items()}
            offsets += batch.offsets
    return [ids for ids in found if len(ids) > 1]


def merge_old_batches(connection: Connection, now: datetime) -> Iterator[int]:
    """Merge every trigger's batches that finished longer ago than its `merge_batches_after_days`.

    Args:
        connection: each step works in the transaction that the caller has opened on it.
        now: the time that ages are counted to.

    Yields:
        For each step, how many batches it removed. The caller commits before it asks for the next step.
    """
    for trigger_id, days in connection.execute(
        _QUERIES["triggers"], {"default_days": DEFAULT_MERGE_BATCHES_AFTER_DAYS}
    ).fetchall():
        yield from _merge_of_trigger(connection, trigger_id, now - timedelta(days=days))


def _merge_of_trigger(connection: Connection, trigger_id: int, before: datetime) -> Iterator[int]:
    from_id = 0
    while True:
        arguments = {"trigger_id": trigger_id, "from_id": from_id, "before": before, "limit": _STEP}
        rows = connection.execute(_QUERIES["old_batches"], arguments).fetchall()
        batches = _exclude_attempts(connection, _mergeables(rows))
        merged = groups(batches, MAX_OFFSETS)
        if merged:
            _merge(connection, merged)
        yield sum(len(ids) - 1 for ids in merged)
        if len(batches) < _STEP:
            return
        # The last batch again: it may be one that was merged just now, and has room for more.
        from_id = batches[-1].id


def merge_taken(lock: Connection, taker: int, max_offsets: int) -> int | None:
    """Merge the batches that a task took with its own, and return the number of that merged batch; None if none is.

    It has the ingest run of the task's own batch.

    Args:
        lock: the connection that holds the lock of the task's attempt; the caller commits, which releases it.
        taker: the task's own batch.
        max_offsets: maximum number of offsets of a merged batch.
    """
    rows = lock.execute(_QUERIES["taken_batches"], {"taker": taker}).fetchall()
    merged = groups(_exclude_attempts(lock, _mergeables(rows)), max_offsets)
    if merged:
        _merge(lock, merged)
    own = next((ids[-1] for ids in merged if taker in ids), None)
    mark_handed_over(lock, [] if own is None else [own])
    return own


def _mergeables(rows: Iterable[tuple[Any, ...]]) -> list[Mergeable]:
    return [_mergeable(id_, parts) for id_, parts in groupby(rows, itemgetter(0))]


def _mergeable(id_: int, rows: Iterable[tuple[Any, ...]]) -> Mergeable:
    ranges: dict[Log, tuple[int, int]] = {}
    can_merge, filter_ = True, None
    for _, topic, partition, topic_id, generation, start, end, is_old, of_batch in rows:
        ranges[Log(topic, partition, topic_id, generation)] = start, end
        can_merge, filter_ = can_merge and is_old, of_batch
    return Mergeable(id_, ranges, can_merge, filter_)


def _exclude_attempts(connection: Connection, batches: Sequence[Mergeable]) -> list[Mergeable]:
    """Let no attempt at the batches begin until the transaction ends; one where an attempt is running stays."""
    free = try_exclude_attempts(connection, [batch.id for batch in batches if batch.can_merge])
    return [replace(batch, can_merge=batch.id in free) for batch in batches]


def _merge(connection: Connection, merged: Sequence[Sequence[int]]) -> None:
    into = {"ids": [id_ for ids in merged for id_ in ids], "into_ids": [ids[-1] for ids in merged for _ in ids]}
    gone = {"ids": [id_ for ids in merged for id_ in ids[:-1]]}
    connection.execute(_QUERIES["delete_virtual_partitions"], into)
    connection.execute(_QUERIES["merge_ranges"], into)
    connection.execute(_QUERIES["delete_ranges"], gone)
    connection.execute(_QUERIES["merge_batches"], into)
    connection.execute(_QUERIES["delete_batches"], gone)
