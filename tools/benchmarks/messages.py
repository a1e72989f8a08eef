"""The messages that all benchmarks use: JSON objects of about 230 bytes, with a key and one header."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from local_stack.waiting import wait_until
from support.record_batches import record_batch
from workorders.core.items import Item
from workorders.kafka.ingest.record_mapping import RecordMapping
from workorders.kafka.partitions import Record

TIMESTAMP_MS = 1_750_000_000_000
HEADER = ("content-type", b"application/fhir+json")
_LEADER_SECONDS = 30.0
ARROW_BATCH = 10_000
"""Messages of one Arrow batch: what Spark hands to Python at once."""


def key(number: int) -> bytes:
    """Return the key of a message."""
    return b"patient-%06d" % (number * 7919 % 1_000_000)


def value(number: int) -> bytes:
    """Return the value of a message; its digits vary, its length hardly does."""
    return (
        b'{"resourceType":"Observation","id":"obs-%09d","status":"final","code":"8867-4","subject":"Patient/%06d",'
        b'"effective":"2025-06-15T%02d:%02d:%02dZ","value":%d.%d,"unit":"beats/minute","device":"monitor-%04d",'
        b'"note":"taken at rest"}'
    ) % (
        number,
        number * 7919 % 1_000_000,
        number // 3600 % 24,
        number // 60 % 60,
        number % 60,
        40 + number * 31 % 120,
        number * 17 % 10,
        number * 13 % 10_000,
    )


def record_batches(topic: str, partition: int, count: int) -> list[pyarrow.RecordBatch]:
    """Return the messages of one partition as Spark hands them to Python."""
    return [
        record_batch(_records(topic, partition, range(start, min(start + ARROW_BATCH, count))))
        for start in range(0, count, ARROW_BATCH)
    ]


def _records(topic: str, partition: int, offsets: Sequence[int]) -> Iterator[Record]:
    for offset in offsets:
        yield Record(topic, partition, offset, key(offset), value(offset), TIMESTAMP_MS, 0, [HEADER])


def items(topic: str, partition: int, count: int, stream: str) -> Iterator[Item]:
    """Return the same messages as items, made by the real mapping."""
    mapping = RecordMapping()
    return (mapping.map_record(record, stream) for record in _records(topic, partition, range(count)))


def create_topics(bootstrap_servers: str, topics: Sequence[str], partitions: int) -> None:
    """Create topics and wait until each partition has a leader that answers.

    Raises:
        RuntimeError: some have none after half a minute.
    """
    client = AdminClient({"bootstrap.servers": bootstrap_servers})
    for future in client.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
        future.result()
    places = [TopicPartition(topic, partition) for topic in topics for partition in range(partitions)]
    if not wait_until(lambda: _answer(client, places), seconds=_LEADER_SECONDS):
        raise RuntimeError(f"The partitions of {topics[0]} had no leader after {_LEADER_SECONDS:g} s.")


def _answer(client: AdminClient, places: Sequence[TopicPartition]) -> bool:
    futures = client.list_offsets(dict.fromkeys(places, OffsetSpec.latest()))
    return all(future.exception() is None for future in futures.values())


def produce(
    bootstrap_servers: str, topic: str, partitions: int, count: int, encode: Callable[[int], bytes] = value
) -> None:
    """Produce `count` messages, spread evenly over the partitions, and wait until the broker has them.

    `encode` makes the value of a message from its number.

    They carry the time of now: retention would remove older ones while they are read.

    Raises:
        RuntimeError: the broker did not take all of them.
    """
    failed: list[str] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "linger.ms": 50, "queue.buffering.max.messages": 500_000}
    )

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failed.append(str(error))

    for number in range(count):
        while True:
            try:
                producer.produce(
                    topic,
                    encode(number),
                    key(number),
                    partition=number % partitions,
                    headers=[HEADER],
                    on_delivery=delivered,
                )
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    if left or failed:
        raise RuntimeError(f"{left + len(failed)} of {count} messages did not reach {topic}: {failed[:1]}")
