"""Sends twenty messages to partition 0 of the topic `orders`, each of which was cut short and is no JSON."""

import json
import os

from confluent_kafka import Producer

TOPIC = "orders"
PARTITION = 0
MESSAGES = 20


def send(settings: dict[str, str | int | float | bool]) -> int:
    """Send the messages and return how many are left in the queue, which is 0 when the broker has taken all."""
    producer = Producer(settings)
    for number in range(MESSAGES):
        producer.produce(TOPIC, f'{{"order": {number}, "ite'.encode(), partition=PARTITION)
    return producer.flush(30)


if __name__ == "__main__":
    left = send(json.loads(os.environ["WORKORDERS_KAFKA"]))
    print(f"{MESSAGES - left} of {MESSAGES} broken messages are on the topic {TOPIC}.")  # noqa: T201 - run by people
