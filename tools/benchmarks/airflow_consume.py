"""Airflow's own `ConsumeFromTopicOperator`, writing the same values into one plain table."""

import json
import time

import psycopg

from benchmarks import plain_table
from benchmarks.airflow_process import run_module
from benchmarks.backlog import Ingested
from local_stack.stack import LocalStack


def consume(stack: LocalStack, topic: str, count: int, group: str) -> Ingested:
    """Let the operator consume the messages of a topic from the first one on, as a new consumer group.

    Raises:
        RuntimeError: it did not write a row for each message.
    """
    plain_table.create(stack.database_url)
    consumer = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    begun = time.monotonic()
    answer = run_module(
        stack,
        "benchmarks.airflow_consumer",
        {"url": stack.database_url, "topic": topic, "count": count},
        kafka=consumer,
    )
    seconds = time.monotonic() - begun
    with psycopg.connect(stack.database_url) as connection:
        row = connection.execute(f"SELECT count(*) FROM {plain_table.TABLE}").fetchone()
    if row is None or row[0] != count:
        raise RuntimeError(f"Airflow's operator wrote {row} rows of {count} messages.")
    return Ingested(count, float(json.loads(answer)), seconds)
