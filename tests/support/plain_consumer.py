"""A consumer that commits its offset `before` its row or `after` it: `python -m support.plain_consumer ...`."""

import os
import sys

import psycopg
from confluent_kafka import Consumer

from compare.function import as_object


def main(servers: str, topic: str, group: str, table: str, order: str) -> None:
    """Insert a row for each message, until the process is ended."""
    settings = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "session.timeout.ms": 6_000})
    consumer.subscribe([topic])
    with psycopg.connect(os.environ["EFFECTS_URL"]) as connection:
        while True:
            message = consumer.poll(1)
            if message is None or message.error():
                continue
            if order == "before":
                consumer.commit(message=message, asynchronous=False)
            try:
                body, raw = as_object(message.value()), None
            except ValueError:
                body, raw = None, message.value() or b""
            connection.execute(f"INSERT INTO {table} (body, raw) VALUES (%s, %s)".encode(), (body, raw))
            connection.commit()
            if order == "after":
                consumer.commit(message=message, asynchronous=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
