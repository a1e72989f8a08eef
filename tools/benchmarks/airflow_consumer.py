"""Runs Airflow's own `ConsumeFromTopicOperator` once, in a separate process; prints the seconds as its last line."""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import orjson
import psycopg
from airflow.providers.apache.kafka.operators.consume import ConsumeFromTopicOperator
from confluent_kafka import Message

from benchmarks.plain_table import COLUMNS, TABLE
from workorders.core.ids import increasing_ids

_INSERT = f"INSERT INTO {TABLE} {COLUMNS} VALUES (%s, %s, %s, %s, %s, %s)"
# The operator's own default.
_BATCH = 1000
_TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")


class Table:
    """Writes messages into the plain table, as the function of a DAG's author would."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._ids = increasing_ids()

    def insert_all(self, batch: Sequence[Message]) -> None:
        """Insert the messages of one batch in one transaction."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(_INSERT, [self._row(message) for message in batch])

    def _row(self, message: Message) -> tuple[Any, ...]:
        kind, milliseconds = message.timestamp()
        request = {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "key": _text(message.key()),
            "timestamp": milliseconds,
            "timestamp_type": _TIMESTAMP_TYPES[kind],
            "headers": [[name, _text(content)] for name, content in dict(message.headers() or ()).items()],
        }
        return (
            next(self._ids).hex(),
            message.topic(),
            message.partition(),
            message.offset(),
            _text(message.value()),
            orjson.dumps(request).decode(),
        )


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def main(url: str, topic: str, count: int) -> float:
    """Consume `count` messages; return the seconds from the operator's start to its end."""
    table = Table(url)
    operator = ConsumeFromTopicOperator(
        task_id="consume",
        topics=[topic],
        max_messages=count,
        # With fewer messages than a batch holds, the operator would wait a minute for the rest of a batch.
        max_batch_size=min(_BATCH, count),
        commit_cadence="end_of_batch",
        apply_function_batch=table.insert_all,
    )
    begun = time.monotonic()
    operator.execute({})
    return time.monotonic() - begun


if __name__ == "__main__":
    given = json.loads(sys.stdin.read())
    print(json.dumps(main(**given)))
