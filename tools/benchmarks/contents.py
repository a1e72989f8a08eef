"""Whether what a benchmark wrote is right: each message once, with its own value and metadata."""

from collections.abc import Iterable, Iterator
from typing import Final

import orjson
import psycopg

from benchmarks import messages, plain_table

Place = tuple[str, int, int, int]
"""Topic, partition, offset, and the message's number in `messages.value`."""

WORK_ORDERS: Final = """
SELECT ledger.topic, ledger.partition, orders.position AS "offset", dataclips.body, dataclips.request
FROM workorders.kafka_ledger AS ledger
JOIN workorders.work_orders AS orders ON orders.stream_id = ledger.stream_id
JOIN workorders.dataclips ON dataclips.id = orders.id
"""
PLAIN_ROWS: Final = f'SELECT topic, partition, "offset", body, request FROM {plain_table.TABLE}'

_COMPARE: Final = """
SELECT count(*), count(*) FILTER (
    WHERE found.body = expected.body
        AND found.request - '{{timestamp,value_schema}}'::text[] = expected.request
        AND jsonb_typeof(found.request -> 'timestamp') = 'number'
)
FROM ({}) AS found LEFT JOIN expected_rows AS expected USING (topic, partition, "offset")
"""


def spread(topic: str, partitions: int, count: int) -> Iterator[Place]:
    """Return where `messages.produce` puts its messages."""
    return ((topic, number % partitions, number // partitions, number) for number in range(count))


def expect(url: str, places: Iterable[Place]) -> None:
    """Store what rows are expected, except the messages' timestamps and the numbers of schemas."""
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS expected_rows")
        cursor.execute(
            'CREATE UNLOGGED TABLE expected_rows (topic text, partition integer, "offset" bigint, body jsonb, '
            'request jsonb, PRIMARY KEY (topic, partition, "offset"))'
        )
        with cursor.copy("COPY expected_rows FROM STDIN") as copy:
            for topic, partition, offset, number in places:
                body = messages.value(number).decode()
                copy.write_row((topic, partition, offset, body, _request(topic, partition, offset, number)))


def _request(topic: str, partition: int, offset: int, number: int) -> str:
    header, value = messages.HEADER
    return orjson.dumps(
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "key": messages.key(number).decode(),
            "timestamp_type": "CreateTime",
            "headers": [[header, value.decode()]],
        }
    ).decode()


def require_right(url: str, rows: str, count: int) -> None:
    """Compare all rows with the expected ones; a unique key of the tables shows that none is there twice.

    Raises:
        RuntimeError: there are not `count` rows, or one is wrong.
    """
    with psycopg.connect(url) as connection:
        connection.execute("SET work_mem = '1GB'")
        found = connection.execute(_COMPARE.format(rows).encode()).fetchone()
    if found != (count, count):
        raise RuntimeError(f"{found} (rows, right rows) were found where {count} messages were read.")
