"""Reads the topic `shipments` for a while and prints each message; makes the topic if it is not there.

It is any consumer: it knows Kafka and nothing of work orders. It reads committed messages only, as consumers of an
outbox must. It finds the broker in WORKORDERS_KAFKA, which `. build/stack/environment.sh` sets after `make up`.
"""

import json
import os
import time

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

TOPIC = "shipments"
PARTITIONS = 3
SECONDS = 15.0


def create_topic(settings: dict[str, str | int | float | bool]) -> None:
    """Make the topic; leave it alone if it is there.

    Raises:
        KafkaException: the broker did not make it.
    """
    client = AdminClient(settings)
    for future in client.create_topics([NewTopic(TOPIC, PARTITIONS)]).values():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def read(settings: dict[str, str | int | float | bool], seconds: float) -> list[str]:
    """Return the values of the topic's committed messages, from its first one on."""
    own = {"group.id": "quickstart", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, **own})
    consumer.subscribe([TOPIC])
    values = []
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        message = consumer.poll(left)
        if message is not None and message.error() is None:
            values.append((message.value() or b"").decode())
    consumer.close()
    return values


if __name__ == "__main__":
    kafka = json.loads(os.environ["WORKORDERS_KAFKA"])
    create_topic(kafka)
    for value in read(kafka, SECONDS):
        print(value)  # noqa: T201 - run by people
