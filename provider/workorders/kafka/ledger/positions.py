"""The ledger: the next offset of each partition of a trigger. Kafka's committed offset follows it.

And samples of the lag behind the ends that the listeners see, one row per partition and minute.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import psycopg

from workorders.core.postgres.connection import Connection, delay_seconds, list_rows
from workorders.core.postgres.locks import AdvisoryLock
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger, stream_id
from workorders.kafka.exceptions import FencedError
from workorders.kafka.ledger import batches, virtual_partitions
from workorders.kafka.partitions import OffsetRange, Partition, Position

_QUERIES = load_queries("workorders.kafka.ledger", "sql/positions.sql")
_LAG_QUERIES = load_queries("workorders.kafka.ledger", "sql/lag_samples.sql")
_LAG_KEPT: Final = timedelta(days=1)
_LAG_STEP: Final = 10_000
_DELAYS: Final = [float(delay_seconds(failures)) for failures in range(1, 8)]
"""Seconds to the next try by the number of failures; the last one for more of them."""
_STREAM: Final = re.compile(r"(?P<topic>[^/]+)/(?P<partition>[0-9]+)@(?P<topic_id>[^~]+)(~(?P<generation>[0-9]+))?")


@dataclass(frozen=True, slots=True)
class LockedPosition:
    """A ledger row under the lock of the caller's transaction."""

    next_offset: int
    epoch: int
    topic_id: str


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A ledger row with the batch that holds the partition."""

    trigger: str
    topic: str
    partition: int
    topic_id: str
    next_offset: int
    status: str
    status_since: datetime
    attempts: int
    next_attempt_at: datetime | None
    last_error: str | None
    batch_id: int | None
    stored_end: int
    """Highest end of what is stored of this log."""


def stream_name(partition: Partition, generation: int = 0) -> str:
    """Return the core's name of a partition, with the topic id, because a re-created topic has other events.

    A truncated log reuses its offsets for other events under the same topic id. The generation is the number of the
    decision since which it does, and 0 for a log that was never truncated.
    """
    name = f"{partition.topic}/{partition.partition}@{partition.topic_id}"
    return f"{name}~{generation}" if generation else name


def parse_stream_name(name: str) -> tuple[Partition, int] | None:
    """Return the partition and the generation of a stream's name; None for a stream that is no partition."""
    found = _STREAM.fullmatch(name)
    if found is None:
        return None
    return Partition(found["topic"], int(found["partition"]), found["topic_id"]), int(found["generation"] or 0)


def lock_trigger(connection: Connection, trigger: Trigger) -> None:
    """Lock the trigger against other planners until the transaction ends."""
    connection.execute(_QUERIES["lock_trigger"], {"trigger_id": trigger.id})


def positions(connection: Connection, trigger: str) -> dict[Partition, Position]:
    """Return every position of a trigger; none if it never planned a batch."""
    rows = connection.execute(_QUERIES["positions"], {"trigger": trigger})
    found = (
        Position(Partition(topic, partition, topic_id), next_offset, busy, mean_message_bytes, *rest)
        for topic, partition, topic_id, next_offset, mean_message_bytes, busy, *rest in rows
    )
    return {position.partition: position for position in found}


def subscriptions(connection: Connection, trigger: str) -> frozenset[str]:
    """Return the names and patterns of topics whose partitions are in the ledger, if they existed at a poll."""
    rows = connection.execute(_QUERIES["subscriptions"], {"trigger": trigger})
    return frozenset(subscription for (subscription,) in rows)


def insert_subscriptions(connection: Connection, trigger: Trigger, polled: Iterable[str]) -> None:
    """Record that the ledger has all partitions of these names and patterns that exist now."""
    connection.execute(_QUERIES["insert_subscriptions"], {"trigger_id": trigger.id, "subscriptions": list(polled)})


def insert(
    connection: Connection, trigger: Trigger, partition: Partition, offset: int, cluster_id: str | None = None
) -> None:
    """Record the first offset to read of a partition, and the cluster that has it."""
    connection.execute(
        _QUERIES["insert_position"],
        {
            **_key(trigger, partition),
            "topic_id": partition.topic_id,
            "stream_id": stream_id(connection, trigger, stream_name(partition)),
            "cluster_id": cluster_id,
            "offset": offset,
        },
    )


def remove_topic(connection: Connection, trigger: Trigger, topic: str) -> int:
    """Remove the partitions of a topic that Kafka does not have; return how many, 0 if a batch holds one."""
    lock_trigger(connection, trigger)
    return connection.execute(_QUERIES["remove_topic"], {"trigger_id": trigger.id, "topic": topic}).rowcount


def take_epoch(connection: Connection, batch_id: int) -> int:
    """Begin a new attempt at a batch, which fences every attempt with an older epoch.

    The epoch is higher than all that the batch and the ledger of its unfinished ranges had, so it follows from nothing
    but the rows that it is compared with.

    A silent attempt that holds a ledger row is terminated; this waits up to `lock_timeout` for one that works. The
    ledger then moves over the virtual partitions that earlier attempts finished.

    Raises:
        UnknownBatchError: there is no batch of this number.
    """
    end_silent_writers(connection)
    with connection.transaction():
        # The ledger's rows before the batch's, in the order of a running attempt: the other order could deadlock.
        of_ranges = connection.execute(_QUERIES["lock_batch"], {"batch_id": batch_id}).fetchall()
        epoch = batches.begin_attempt(connection, batch_id, after=max((epoch for (epoch,) in of_ranges), default=0))
        connection.execute(_QUERIES["take_epoch"], {"epoch": epoch, "batch_id": batch_id})
        virtual_partitions.advance_all(connection, batch_id, epoch)
    return epoch


def extend_epoch(connection: Connection, batch_id: int, epoch: int) -> int:
    """Let a running attempt take the ranges that were just added to its batch, in the transaction that added them.

    Returns:
        The epoch of these ranges: the attempt's, or a higher one if the ledger of one of them has reached it.
    """
    of_ranges = connection.execute(_QUERIES["lock_batch"], {"batch_id": batch_id}).fetchall()
    extended: int = max([epoch, *(taken + 1 for (taken,) in of_ranges)])
    connection.execute(_QUERIES["take_epoch"], {"epoch": extended, "batch_id": batch_id})
    return extended


def end_silent_writers(connection: Connection) -> None:
    """Terminate sessions that hold ledger rows and have been silent for longer than a statement may last."""
    connection.execute(_QUERIES["end_silent_writers"])


def wait_for_copies(connection: Connection, batch_id: int, epoch: int, range_: OffsetRange) -> None:
    """Lock the range against other copies of this attempt until the transaction ends; wait for a running one.

    Spark may run a task twice at once. For Spark a copy that reports a failure has completed, and the other, working
    copy is killed, so a copy must not fail because it waits. The other copy ends by its own limits.
    """
    key = {"class": AdvisoryLock.RANGE, "attempt": f"{batch_id} {epoch} {range_}"}
    while True:
        try:
            with connection.transaction():
                connection.execute(_QUERIES["lock_attempt"], key)
        except psycopg.errors.LockNotAvailable:
            end_silent_writers(connection)
        else:
            return


def lock(connection: Connection, trigger: Trigger, partition: Partition, *, is_shared: bool = False) -> LockedPosition:
    """Return the ledger row, locked until the transaction ends.

    A shared lock excludes a newer attempt and a decision, and neither other shared ones nor a move of the ledger.

    Raises:
        FencedError: the row was deleted, so the trigger does not have the partition any more.
    """
    query = _QUERIES["share_position" if is_shared else "lock_position"]
    row = connection.execute(query, _key(trigger, partition)).fetchone()
    if row is None:
        raise FencedError(
            f"{trigger.name}: {partition} is no longer in the ledger; "
            f"nothing was committed. See `workorders status` for the partitions of the trigger."
        )
    return LockedPosition(*row)


def stall(connection: Connection, trigger: Trigger, range_: OffsetRange, *, epoch: int, error: str) -> None:
    """Record why a range is stalled, and when the next try is, by the number of attempts.

    Changes nothing if a newer attempt has begun, or if the range was committed or is being written at this moment.
    """
    place = {**_key(trigger, range_.partition), "start_offset": range_.start, "end_offset": range_.end}
    connection.execute(_QUERIES["stall"], {**place, "epoch": epoch, "error": error, "delays": _DELAYS})


def record_unanswered(
    connection: Connection, trigger: Trigger, errors: Mapping[tuple[str, int], str]
) -> tuple[str, ...]:
    """Mark the free partitions with an error as stalled and end the stalls of the others; the trigger is locked.

    Returns:
        The errors of the stalls that begin.
    """
    columns = {
        "topics": [topic for topic, _ in errors],
        "partitions": [partition for _, partition in errors],
        "errors": list(errors.values()),
    }
    changed = connection.execute(_QUERIES["record_unanswered"], {"trigger_id": trigger.id, **columns})
    return tuple(error for (error,) in changed if error is not None)


def lock_group_commits(connection: Connection, trigger_id: int) -> None:
    """Lock this trigger's consumer group against other commits until the transaction ends."""
    connection.execute(_QUERIES["lock_group_commits"], {"class": AdvisoryLock.GROUP_COMMIT, "trigger_id": trigger_id})


def positions_of_batch(connection: Connection, batch_id: int) -> dict[Partition, int]:
    """Return the ledger's current positions of the partitions of a batch."""
    cursor = connection.execute(_QUERIES["positions_of_batch"], {"batch_id": batch_id})
    return {Partition(topic, partition, topic_id): offset for topic, partition, topic_id, offset in cursor}


def status(connection: Connection, trigger: str | None = None) -> list[PartitionStatus]:
    """Return every ledger row, or those of one trigger, sorted by trigger, topic and partition."""
    return list_rows(connection, PartitionStatus, _QUERIES["status"], {"trigger": trigger})


def missing_from_ledger(partitions: Iterable[Partition], known: Iterable[Partition]) -> list[Partition]:
    """Return the partitions without a row in the ledger, regardless of their topic id."""
    rows = {partition.topic_partition for partition in known}
    return [partition for partition in partitions if partition.topic_partition not in rows]


def record_lag(connection: Connection, trigger: str, ends: Mapping[Partition, int]) -> None:
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
    connection.execute(_LAG_QUERIES["record"], given)


def delete_old_samples(connection: Connection, now: datetime) -> bool:
    """Delete some rows that are older than a day; return whether there may be more."""
    values = {"before": now - _LAG_KEPT, "limit": _LAG_STEP}
    return connection.execute(_LAG_QUERIES["delete_old"], values).rowcount == _LAG_STEP


def _key(trigger: Trigger, partition: Partition) -> dict[str, object]:
    return {"trigger_id": trigger.id, "topic": partition.topic, "partition": partition.partition}
