"""Reads group offset, ledger and work orders all the time, and keeps the instants at which they contradict each other.

The group is read first, then ledger and rows in one snapshot: what is read later can only have grown meanwhile, so
that a group ahead of the ledger is no matter of the order of reading.
"""

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import psycopg
from confluent_kafka import Consumer, KafkaException, TopicPartition

from support.lookout import Lookout
from support.observed_trigger import ObservedTrigger

OFTEN_SECONDS = 0.05
SELDOM_SECONDS = 1.0
"""Next to a whole Airflow, which needs the machine."""
_GROUP_SECONDS = 1.0
_CONNECT_SECONDS = 2
_STATEMENT_MS = 5000

_SNAPSHOT = """
    SELECT ledger.partition, ledger.next_offset,
        count(orders.id) FILTER (WHERE orders.position < ledger.next_offset) AS behind,
        count(orders.id) FILTER (WHERE orders.position >= ledger.next_offset AND NOT EXISTS (
            SELECT FROM workorders.kafka_virtual_partitions AS parts
            JOIN workorders.kafka_ranges AS ranges USING (batch_id, topic, partition)
            WHERE (ranges.trigger_id, ranges.topic, ranges.partition)
                = (ledger.trigger_id, ledger.topic, ledger.partition)
                AND parts.finished_at IS NOT NULL
                AND orders.position >= parts.start_offset
                AND orders.position < parts.end_offset
        )) AS ahead, ledger.stream_id
    FROM workorders.kafka_ledger AS ledger
    JOIN workorders.triggers ON triggers.id = ledger.trigger_id
    LEFT JOIN workorders.work_orders AS orders ON orders.stream_id = ledger.stream_id
    WHERE triggers.name = %s
    GROUP BY ledger.partition, ledger.next_offset, ledger.stream_id
"""


@dataclass(frozen=True, slots=True)
class PartitionSnapshot:
    """What one snapshot of the database contains of a partition."""

    partition: int
    next_offset: int
    behind: int
    """Work orders before the ledger's position."""
    ahead: int
    """Work orders at or after it that are in no finished virtual partition: no transaction may leave them behind."""
    stream_id: int = 0
    """Which log of the partition the ledger follows: an operator's decision may let it follow another one."""


def contradiction(group: Mapping[int, int], snapshot: PartitionSnapshot, *, gapless: bool = False) -> str | None:
    """Return what is wrong at this instant, in words; None when nothing is.

    Args:
        group: the group's offsets, by partition.
        snapshot: what the database contains.
        gapless: whether every offset before the ledger's position must have a work order.
    """
    committed = group.get(snapshot.partition, -1)
    if committed > snapshot.next_offset:
        return f"partition {snapshot.partition}: the group is at {committed}, the ledger at {snapshot.next_offset}"
    if snapshot.ahead:
        return f"partition {snapshot.partition}: {snapshot.ahead} work orders lie ahead of {snapshot.next_offset}"
    if gapless and snapshot.behind != snapshot.next_offset:
        return f"partition {snapshot.partition}: {snapshot.behind} work orders lie before {snapshot.next_offset}"
    return None


class Sampler(Lookout):
    """Samples one trigger from entering the context until leaving it.

    Args:
        trigger: the trigger.
        seconds: the pause before each sample.
        gapless: whether its topic holds messages only, read from its beginning: no aborted ones, no markers.
    """

    def __init__(self, trigger: ObservedTrigger, *, seconds: float = OFTEN_SECONDS, gapless: bool = False) -> None:
        super().__init__(self._try_to_sample, seconds)
        self._trigger = trigger
        self._gapless = gapless
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._consumer: Consumer | None = None
        self._streams: dict[int, int] = {}
        #: Looks at all three that succeeded.
        self.samples = 0
        #: Looks at which Kafka or Postgres did not answer, as faults make it.
        self.missed = 0
        #: Different snapshots, in the order in which they were seen first.
        self.snapshots: dict[PartitionSnapshot, None] = {}
        #: The contradictions, with their time.
        self.contradictions: list[str] = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        self._drop()

    def _try_to_sample(self) -> None:
        try:
            self._sample()
        except (psycopg.Error, KafkaException):
            self.missed += 1
            self._drop()

    def _sample(self) -> None:
        group = self._committed()
        snapshots = self._snapshots()
        if self._follows_another_log(snapshots):
            # The group was set back before the ledger, and may have been asked before both.
            group = self._committed()
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        for snapshot in snapshots:
            self.snapshots.setdefault(snapshot)
            if (wrong := contradiction(group, snapshot, gapless=self._gapless)) is not None:
                self.contradictions.append(f"{now} {wrong}")
        self.samples += 1

    def _follows_another_log(self, snapshots: list[PartitionSnapshot]) -> bool:
        before, self._streams = self._streams, {snapshot.partition: snapshot.stream_id for snapshot in snapshots}
        return any(before.get(partition, stream) != stream for partition, stream in self._streams.items())

    def _committed(self) -> dict[int, int]:
        if self._consumer is None:
            self._consumer = Consumer(
                {**self._trigger.kafka_settings, "group.id": self._trigger.group, "enable.auto.commit": False}
            )
        topic = self._trigger.topic
        partitions = self._consumer.list_topics(topic, timeout=_GROUP_SECONDS).topics[topic].partitions
        places = [TopicPartition(topic, partition) for partition in partitions]
        found = self._consumer.committed(places, _GROUP_SECONDS) if places else []
        return {place.partition: place.offset for place in found if place.offset >= 0}

    def _snapshots(self) -> list[PartitionSnapshot]:
        if self._connection is None:
            self._connection = psycopg.connect(
                self._trigger.database_url,
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
                options=f"-c statement_timeout={_STATEMENT_MS}",
                application_name="sampler",
            )
        return [PartitionSnapshot(*row) for row in self._connection.execute(_SNAPSHOT, (self._trigger.name,))]

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        consumer, self._consumer = self._consumer, None
        with contextlib.suppress(psycopg.Error, KafkaException):
            if connection is not None:
                connection.close()
            if consumer is not None:
                consumer.close()


@contextmanager
def commits_in_order(trigger: ObservedTrigger) -> Iterator[Sampler]:
    """Hold group <= ledger <= persisted at every look, while other things go wrong; no unavailable service is asked.

    Args:
        trigger: whose topic holds messages only, read from its beginning.

    Raises:
        AssertionError: the order was broken, or it was never seen whole.
    """
    with Sampler(trigger, seconds=SELDOM_SECONDS, gapless=True) as sampler:
        yield sampler
    assert sampler.failure is None, f"the sampler failed: {sampler.failure!r}"
    assert not sampler.contradictions, sampler.contradictions[0]
    assert sampler.samples, "group, ledger and work orders were never seen at once"
