"""Makes the topic `orders`, registers two schemas, and sends ten orders whose keys and values are Avro.

It is any producer. It finds the broker in WORKORDERS_KAFKA and the registry in AIRFLOW_CONN_REGISTRY, which
`. build/stack/environment.sh` sets after `make up REGISTRY=1`.
"""

import json
import os

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

TOPIC = "orders"
ORDERS = [{"order": number, "item": "bandages", "count": number % 3 + 1} for number in range(1, 11)]
ORDER = """
{"type": "record", "name": "Order", "fields": [
    {"name": "order", "type": "long"}, {"name": "item", "type": "string"}, {"name": "count", "type": "int"}]}
"""
CUSTOMER = """
{"type": "record", "name": "Customer", "fields": [{"name": "customer", "type": "int"}]}
"""


def send(settings: dict[str, str | int | float | bool], registry: dict[str, object]) -> int:
    """Send the messages and return how many are left in the queue, which is 0 when the broker has taken all."""
    client = SchemaRegistryClient(registry)
    values, keys = AvroSerializer(client, ORDER), AvroSerializer(client, CUSTOMER)
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(TOPIC, 3)])[TOPIC].exception()  # that it is there already is no failure
    producer = Producer(settings)
    for order in ORDERS:
        key = keys({"customer": int(str(order["order"])) % 4}, SerializationContext(TOPIC, MessageField.KEY))
        producer.produce(TOPIC, values(order, SerializationContext(TOPIC, MessageField.VALUE)), key=key)
    return producer.flush(30)


if __name__ == "__main__":
    found = json.loads(os.environ["AIRFLOW_CONN_REGISTRY"])["extra"]
    left = send(json.loads(os.environ["WORKORDERS_KAFKA"]), found)
    print(f"{len(ORDERS) - left} of {len(ORDERS)} orders are on the topic {TOPIC}.")  # noqa: T201 - run by people
