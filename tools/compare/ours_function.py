"""The function of our workflow: it inserts a row in the transaction that remembers that it did."""

import json
import os
from collections.abc import Mapping
from typing import Any

import psycopg

from workorders.core.worker.context import Context


def run(body: Any, context: Context) -> None:
    """Insert the row of a work order's message."""
    context.transaction("insert", _insert, body, context.request)


def _insert(connection: psycopg.Connection[Any], body: Any, request: Mapping[str, Any]) -> None:
    statement = (
        f'INSERT INTO {os.environ["COMPARE_TABLE"]} (topic, partition, "offset", key, body) VALUES (%s, %s, %s, %s, %s)'
    )
    values = (request["topic"], request["partition"], request["offset"], request["key"], json.dumps(body))
    connection.execute(statement.encode(), values)
