"""A trigger seen from outside: a producer that knows nothing of us, and questions to Kafka and Postgres."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import psycopg
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]
from psycopg.rows import dict_row

from local_stack.stack import LocalStack
from support.eventually import eventually

REQUEST_SECONDS = 60.0

INVALID: dict[str, bytes | None] = {
    "not-json": b"{broken",
    "not-an-object": b"[1, 2]",
    "not-utf8": b'{"a": "\xff"}',
    "null-value": None,
}
"""Messages that cannot be an input, by the code of their rejection."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where Kafka put a message."""

    partition: int
    offset: int


class ObservedTrigger:
    """One trigger, its one topic and its work orders."""

    def __init__(
        self, name: str, topic: str, *, kafka_settings: Mapping[str, Any], database_url: str, group: str = ""
    ) -> None:
        self.name = name
        self.topic = topic
        self.group = group or f"workorders-{name}"
        # A broker that a test has killed is no news.
        self.kafka_settings = {**kafka_settings, "log_level": 0}
        self.database_url = database_url
        self._admin = AdminClient(self.kafka_settings)

    @classmethod
    def on_stack(cls, stack: LocalStack, name: str, topic: str) -> Self:
        """Return the trigger of a stack, seen past any pooler of it."""
        return cls(name, topic, kafka_settings=stack.kafka_settings, database_url=stack.database_url)

    def create_topic(self, partitions: int) -> None:
        """Create the topic."""
        self._wait(self._admin.create_topics([NewTopic(self.topic, partitions, 1)]))

    def delete_before(self, partition: int, offset: int) -> None:
        """Delete the messages before an offset, as retention does."""
        self._wait(self._admin.delete_records([TopicPartition(self.topic, partition, offset)]))

    def produce(self, values: Iterable[tuple[int, bytes | None]]) -> list[Place]:
        """Produce values into the given partitions and return their places in Kafka."""
        return self._produce(
            Producer({**self.kafka_settings, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000}), values
        )

    def produce_and_abort(self, values: Iterable[tuple[int, bytes | None]]) -> None:
        """Produce in a transaction and abort it: offsets are used up and nothing is visible."""
        producer = Producer({**self.kafka_settings, "transactional.id": f"aborts-{self.topic}"})
        producer.init_transactions(REQUEST_SECONDS)
        producer.begin_transaction()
        self._produce(producer, values)
        producer.abort_transaction(REQUEST_SECONDS)

    def last_stable_offsets(self) -> dict[int, int]:
        """Return the end of what can be read, by partition."""
        return self._offsets(OffsetSpec.latest())

    def group_offsets(self) -> dict[int, int]:
        """Return what the consumer group has committed, by partition; nothing of a partition without a commit.

        Asked through a consumer that joins nothing: the administration client ends the process by a segmentation fault
        while the group's coordinator is being made.
        """
        places = [TopicPartition(self.topic, partition) for partition in self._partitions()]
        consumer = Consumer({**self.kafka_settings, "group.id": self.group, "enable.auto.commit": False})
        try:
            found = eventually(lambda: _committed(consumer, places), seconds=REQUEST_SECONDS, what="a coordinator")
        finally:
            consumer.close()
        return {answer.partition: answer.offset for answer in found or [] if answer.offset >= 0}

    def work_orders(self) -> dict[int, list[int]]:
        """Return the offsets that have a work order, sorted, by partition. A doubled offset would be there twice."""
        rows = self._rows(
            """
            SELECT split_part(split_part(streams.name, '@', 1), '/', 2)::int AS partition, orders.position
            FROM workorders.work_orders AS orders
            JOIN workorders.source_streams AS streams ON streams.id = orders.stream_id
            JOIN workorders.triggers ON triggers.id = streams.trigger_id
            WHERE triggers.name = %(name)s
            ORDER BY partition, position
            """
        )
        found: dict[int, list[int]] = defaultdict(list)
        for row in rows:
            found[row["partition"]].append(row["position"])
        return dict(found)

    def count(self) -> int:
        """Return how many work orders there are."""
        return int(
            self._rows(
                """
                SELECT count(*) AS count FROM workorders.work_orders AS orders
                JOIN workorders.triggers ON triggers.id = orders.trigger_id WHERE triggers.name = %(name)s
                """
            )[0]["count"]
        )

    def has_all(self, places: Iterable[Place]) -> bool:
        """Return whether exactly these messages have a work order, each one once."""
        return self.work_orders() == by_partition(places)

    def rejections(self) -> dict[Place, tuple[str, bytes | None]]:
        """Return the code and the raw bytes of each rejected message."""
        rows = self._rows(
            """
            SELECT split_part(split_part(streams.name, '@', 1), '/', 2)::int AS partition, orders.position,
                rejections.code, rejections.raw
            FROM workorders.rejections
            JOIN workorders.work_orders AS orders ON orders.id = rejections.work_order_id
            JOIN workorders.source_streams AS streams ON streams.id = orders.stream_id
            JOIN workorders.triggers ON triggers.id = orders.trigger_id
            WHERE triggers.name = %(name)s AND orders.state = 'rejected'
            """
        )
        return {Place(row["partition"], row["position"]): (row["code"], row["raw"]) for row in rows}

    def ledger(self) -> dict[int, dict[str, Any]]:
        """Return the ledger's rows by partition."""
        rows = self._rows(
            """
            SELECT ledger.* FROM workorders.kafka_ledger AS ledger
            JOIN workorders.triggers ON triggers.id = ledger.trigger_id WHERE triggers.name = %(name)s
            """
        )
        return {row["partition"]: row for row in rows}

    def next_offsets(self) -> dict[int, int]:
        """Return the ledger's next offset, by partition."""
        return {partition: row["next_offset"] for partition, row in self.ledger().items()}

    def batches(self) -> list[dict[str, Any]]:
        """Return all batches, oldest first."""
        return self._rows(
            """
            SELECT batches.* FROM workorders.kafka_batches AS batches
            JOIN workorders.triggers ON triggers.id = batches.trigger_id WHERE triggers.name = %(name)s
            ORDER BY batches.id
            """
        )

    def ranges(self) -> list[dict[str, Any]]:
        """Return the ranges of all batches, oldest batch first."""
        return self._rows(
            """
            SELECT ranges.* FROM workorders.kafka_ranges AS ranges
            JOIN workorders.triggers ON triggers.id = ranges.trigger_id WHERE triggers.name = %(name)s
            ORDER BY ranges.batch_id, ranges.partition
            """
        )

    def virtual_partitions(self, batch_id: int) -> list[dict[str, Any]]:
        """Return the virtual partitions of a batch, in the order of their offsets."""
        return [
            row
            for row in self._rows(
                """
                SELECT parts.* FROM workorders.kafka_virtual_partitions AS parts
                JOIN workorders.kafka_batches AS batches ON batches.id = parts.batch_id
                JOIN workorders.triggers ON triggers.id = batches.trigger_id WHERE triggers.name = %(name)s
                ORDER BY parts.batch_id, parts.partition, parts.start_offset
                """
            )
            if row["batch_id"] == batch_id
        ]

    def delete_work_orders(self, partition: int, offsets: Iterable[int]) -> int:
        """Delete work orders behind everybody's back, and return how many."""
        with psycopg.connect(self.database_url) as connection:
            row = connection.execute(
                """
                WITH gone AS (
                    DELETE FROM workorders.work_orders AS orders
                    USING workorders.source_streams AS streams, workorders.triggers
                    WHERE streams.id = orders.stream_id
                        AND triggers.id = orders.trigger_id
                        AND triggers.name = %(name)s
                        -- As text: Postgres may look at the streams of other sources first, which have no partition.
                        AND split_part(split_part(streams.name, '@', 1), '/', 2) = %(partition)s::text
                        AND orders.position = ANY (%(offsets)s)
                    RETURNING orders.id
                ), clips AS (DELETE FROM workorders.dataclips USING gone WHERE dataclips.id = gone.id),
                reasons AS (DELETE FROM workorders.rejections USING gone WHERE rejections.work_order_id = gone.id)
                SELECT count(*) FROM gone
                """,
                {"name": self.name, "partition": partition, "offsets": list(offsets)},
            ).fetchone()
        return 0 if row is None else int(row[0])

    @contextmanager
    def planning_held(self) -> Iterator[None]:
        """Let the process that plans for the trigger, or lets a batch grow, wait in its transaction until the end."""
        with psycopg.connect(self.database_url) as connection:
            connection.execute("SELECT FROM workorders.triggers WHERE name = %s FOR NO KEY UPDATE", (self.name,))
            yield

    def _rows(self, query: str) -> list[dict[str, Any]]:
        with psycopg.connect(self.database_url, row_factory=dict_row) as connection:
            return connection.execute(query.encode(), {"name": self.name}).fetchall()

    def _partitions(self) -> list[int]:
        return sorted(self._admin.list_topics(self.topic, timeout=REQUEST_SECONDS).topics[self.topic].partitions)

    def _offsets(self, spec: Any) -> dict[int, int]:
        wanted = {TopicPartition(self.topic, partition): spec for partition in self._partitions()}
        futures = self._admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
        return {key.partition: future.result(REQUEST_SECONDS).offset for key, future in futures.items()}

    def _produce(self, producer: Producer, values: Iterable[tuple[int, bytes | None]]) -> list[Place]:
        places: list[Place] = []

        def delivered(error: Any, message: Message) -> None:
            if error is not None:
                raise AssertionError(f"Kafka did not take a message: {error}")
            partition, offset = message.partition(), message.offset()
            if partition is None or offset is None:
                raise AssertionError("Kafka did not report where the message is.")
            places.append(Place(partition, offset))

        for number, (partition, value) in enumerate(values):
            if number % 10_000 == 0:
                producer.poll(0)
            producer.produce(self.topic, value, partition=partition, on_delivery=delivered)
        if left := producer.flush(REQUEST_SECONDS):
            raise AssertionError(f"Kafka did not take {left} messages within {REQUEST_SECONDS:g} s.")
        return places

    @staticmethod
    def _wait(futures: Mapping[Any, Any]) -> None:
        for future in futures.values():
            future.result(REQUEST_SECONDS)


def by_partition(places: Iterable[Place]) -> dict[int, list[int]]:
    """Return the offsets of places, sorted, by partition."""
    offsets: dict[int, list[int]] = defaultdict(list)
    for place in places:
        offsets[place.partition].append(place.offset)
    return {partition: sorted(found) for partition, found in offsets.items()}


def _committed(consumer: Consumer, places: list[TopicPartition]) -> list[TopicPartition] | None:
    try:
        return consumer.committed(places, REQUEST_SECONDS)
    except KafkaException:
        return None


def some_events(count: int, partitions: int, *, first: int = 0) -> list[tuple[int, bytes]]:
    """Return valid messages, numbered on, spread over the partitions."""
    return [(number % partitions, b'{"number": %d}' % number) for number in range(first, first + count)]
