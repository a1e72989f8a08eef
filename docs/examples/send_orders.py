"""Sends ten orders to the topic `orders`, and one message that is no order; makes the topic if it is not there.

It is any producer: it knows Kafka and nothing of work orders. It finds the broker in WORKORDERS_KAFKA, which
`. build/stack/environment.sh` sets after `make up`.
"""

import json
import os

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

TOPIC = "orders"
PARTITIONS = 3


def create_topic(settings: dict[str, str | int | float | bool]) -> None:
    """Make the topic; leave it alone if it is there.

    Raises:
        KafkaException: the broker did not make it.
    """
    client = AdminClient(settings)  # a name: a client that is not kept ends before it has its answer
    for future in client.create_topics([NewTopic(TOPIC, PARTITIONS)]).values():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def values() -> list[bytes]:
    """Return the messages: ten JSON objects, and a text that was cut short."""
    orders = [{"order": number, "item": "bandages", "count": number % 3 + 1} for number in range(1, 11)]
    return [*(json.dumps(order).encode() for order in orders), b'{"order": 11, "ite']


def send(settings: dict[str, str | int | float | bool]) -> int:
    """Send the messages and return how many the broker has confirmed."""
    confirmed: list[Message] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            confirmed.append(message)

    producer = Producer(settings)
    for number, value in enumerate(values()):
        producer.produce(TOPIC, value, key=f"customer-{number % 4}", on_delivery=delivered)
    producer.flush(30)
    return len(confirmed)


if __name__ == "__main__":
    kafka = json.loads(os.environ["WORKORDERS_KAFKA"])
    create_topic(kafka)
    print(f"{send(kafka)} of {len(values())} messages are on the topic {TOPIC}.")  # noqa: T201 - run by people
