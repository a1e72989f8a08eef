"""Reads group offset, ledger and work orders all the time, and keeps the instants at which they contradict each other.

The group is read first, then ledger and rows in one snapshot: what is read later can only have gone on meanwhile, so
that a group ahead of the ledger is no matter of the order of reading.
"""

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
from confluent_kafka import Consumer, KafkaException, TopicPartition

PAUSE_SECONDS = 0.05
_GROUP_SECONDS = 1.0
_CONNECT_SECONDS = 2
_STATEMENT_MS = 5000

_STANDING = """
    SELECT ledger.partition, ledger.next_offset,
        count(orders.id) FILTER (WHERE orders.position < ledger.next_offset) AS behind,
        count(orders.id) FILTER (WHERE orders.position >= ledger.next_offset) AS ahead
    FROM workorders.kafka_ledger AS ledger
    JOIN workorders.triggers ON triggers.id = ledger.trigger_id
    LEFT JOIN workorders.work_orders AS orders ON orders.stream_id = ledger.stream_id
    WHERE triggers.name = %s
    GROUP BY ledger.partition, ledger.next_offset
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """What one snapshot of the database says of a partition."""

    partition: int
    next_offset: int
    behind: int
    """Work orders before the ledger's position."""
    ahead: int
    """Work orders at or after it, which one transaction must never leave behind."""


def contradiction(group: Mapping[int, int], standing: Standing) -> str | None:
    """Return what is wrong at this instant, in words; None when nothing is."""
    committed = group.get(standing.partition, -1)
    if committed > standing.next_offset:
        return f"partition {standing.partition}: the group stands at {committed}, the ledger at {standing.next_offset}"
    if standing.ahead:
        return f"partition {standing.partition}: {standing.ahead} work orders lie ahead of {standing.next_offset}"
    return None


class Sampler:
    """Samples one trigger from entering the context until leaving it."""

    def __init__(self, trigger: str, group: str, topic: str, *, url: str, kafka: Mapping[str, Any]) -> None:
        self._trigger = trigger
        self._group = group
        self._topic = topic
        self._url = url
        self._kafka = dict(kafka)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._consumer: Consumer | None = None
        #: Looks at all three that succeeded.
        self.samples = 0
        #: Looks at which Kafka or Postgres did not answer, as faults make it.
        self.missed = 0
        #: Different standings, in the order in which they were seen first.
        self.standings: dict[Standing, None] = {}
        #: The contradictions, with their time.
        self.contradictions: list[str] = []
        #: What ended the sampling early; nothing can be said then.
        self.failure: Exception | None = None

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._drop()

    def _run(self) -> None:
        while not self._over.wait(PAUSE_SECONDS):
            try:
                self._sample()
            except (psycopg.Error, KafkaException):
                self.missed += 1
                self._drop()
            except Exception as failure:  # noqa: BLE001 - a thread would end in silence
                self.failure = failure
                return

    def _sample(self) -> None:
        group = self._committed()
        standings = self._standings()
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        for standing in standings:
            self.standings.setdefault(standing)
            if (wrong := contradiction(group, standing)) is not None:
                self.contradictions.append(f"{now} {wrong}")
        self.samples += 1

    def _committed(self) -> dict[int, int]:
        if self._consumer is None:
            self._consumer = Consumer({**self._kafka, "group.id": self._group, "enable.auto.commit": False})
        partitions = self._consumer.list_topics(self._topic, timeout=_GROUP_SECONDS).topics[self._topic].partitions
        places = [TopicPartition(self._topic, partition) for partition in partitions]
        found = self._consumer.committed(places, _GROUP_SECONDS) if places else []
        return {place.partition: place.offset for place in found if place.offset >= 0}

    def _standings(self) -> list[Standing]:
        if self._connection is None:
            self._connection = psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
                options=f"-c statement_timeout={_STATEMENT_MS}",
                application_name="faults sampler",
            )
        return [Standing(*row) for row in self._connection.execute(_STANDING, (self._trigger,))]

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        consumer, self._consumer = self._consumer, None
        with contextlib.suppress(psycopg.Error, KafkaException):
            if connection is not None:
                connection.close()
            if consumer is not None:
                consumer.close()
