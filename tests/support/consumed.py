"""What a consumer sees of a topic."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

SECONDS = 60.0


def consumed(
    settings: Mapping[str, Any], topic: str, *, isolation: str = "read_committed", seconds: float = SECONDS
) -> list[Message]:
    """Return every message of a topic from its beginning to its end, partition by partition."""
    with _consumer(settings, isolation) as consumer:
        partitions = consumer.list_topics(topic, timeout=seconds).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found: list[Message] = []
        waiting, deadline = set(partitions), time.monotonic() + seconds
        while waiting:
            assert time.monotonic() < deadline, f"partitions {waiting} of {topic} did not end"
            for message in consumer.consume(10_000, 0.2):
                error = message.error()
                if error is None:
                    found.append(message)
                    waiting.add(message.partition())
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    waiting.discard(message.partition())
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


@contextmanager
def _consumer(settings: Mapping[str, Any], isolation: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            **settings,
            "group.id": "test-never-joined",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()
