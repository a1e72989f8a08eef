"""The function of a whole way from Kafka to Kafka, and the place where it writes its rows."""

from typing import Any

import psycopg

from workorders.core.worker.context import Context
from workorders.core.worker.user_database import CREATE_TABLE

CONNECTION = "shop_db"
TOPIC = "shipments"
KEYS = 30
"""How many keys the messages have: a multiple of the topics' partitions, so that each key is in one of them."""
FAILS_EVERY = 97
_TABLE = """
CREATE TABLE shipments (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    producer integer NOT NULL,
    sequence integer NOT NULL
)
"""


def create_tables(url: str) -> None:
    """Create the function's table, in which nothing prevents a second row, and that of its steps."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(CREATE_TABLE)
        connection.execute(_TABLE)


def ship(order: dict[str, Any], context: Context) -> None:
    """Write a row and publish a message for an order; fail once for some orders, before and after the row."""
    fails = order["seq"] % FAILS_EVERY if context.attempt == 1 else None
    if fails == 0:
        raise RuntimeError("This order fails once, before its row.")
    context.transaction("ship", _insert, order)
    if fails == 1:
        raise RuntimeError("This order fails once, after its row.")
    shipped = {"producer": order["producer"], "seq": order["seq"]}
    context.publish(TOPIC, shipped, key=context.request["key"])


def _insert(connection: psycopg.Connection[Any], order: dict[str, Any]) -> None:
    connection.execute("INSERT INTO shipments (producer, sequence) VALUES (%s, %s)", [order["producer"], order["seq"]])
