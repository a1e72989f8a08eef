"""Carrying rows from Postgres to Kafka: ours, a plain program, and the algorithm of Deimos's document.

All three send the same messages from tables with as many rows, in one Python process each, with acks=all and the same
compression. The plain program reads pages and forgets nothing; it could not go on after a crash, and is the measure of
what reading and producing cost by themselves.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from confluent_kafka import Producer

from support.outbox import Outbox
from workorders.outbox import OutboxMessage, enqueue

MESSAGE_BYTES: Final = 230
_KEYS: Final = 10_000
_PAGE: Final = 10_000
_DEIMOS_BATCH: Final = 1000
_SECONDS: Final = 120.0

_FILL_OURS: Final = """
    INSERT INTO workorders.outbox_messages (event_id, bucket, topic, key, value)
    SELECT gen_random_uuid(), get_byte(workorders.outbox_hash(%(topic)s, made.key), 4) & 15, %(topic)s, made.key,
        made.value
    FROM (
        SELECT convert_to('key-' || number %% %(keys)s, 'UTF8') AS key,
            convert_to(rpad('message ' || number, %(bytes)s, 'abcdefgh 0123456789 '), 'UTF8') AS value
        FROM generate_series(1, %(messages)s) AS number
    ) AS made
"""
_CREATE_THEIRS: Final = """
    DROP TABLE IF EXISTS bench_kafka_messages, bench_kafka_topic_info;
    CREATE TABLE bench_kafka_messages (
        id bigserial PRIMARY KEY, topic text NOT NULL, message bytea, key bytea, partition_key text,
        created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now()
    );
    CREATE INDEX ON bench_kafka_messages (topic, id);
    CREATE TABLE bench_kafka_topic_info (
        topic text PRIMARY KEY, locked_by text, locked_at timestamptz, error boolean NOT NULL DEFAULT false,
        retries integer NOT NULL DEFAULT 0
    );
"""
_FILL_THEIRS: Final = """
    INSERT INTO bench_kafka_messages (topic, key, message)
    SELECT %(topic)s, convert_to('key-' || number %% %(keys)s, 'UTF8'),
        convert_to(rpad('message ' || number, %(bytes)s, 'abcdefgh 0123456789 '), 'UTF8')
    FROM generate_series(1, %(messages)s) AS number
"""


@dataclass(frozen=True, slots=True)
class Case:
    """Where messages come from and go to."""

    outbox: Outbox
    topic: str
    messages: int


def fill_ours(case: Case) -> None:
    """Let so many messages wait in the outbox."""
    _fill(case, _FILL_OURS, "workorders.outbox_messages")


def fill_theirs(case: Case) -> None:
    """Let so many messages wait in a table as Deimos has it."""
    with psycopg.connect(case.outbox.database_url, autocommit=True) as connection:
        connection.execute(_CREATE_THEIRS)
    _fill(case, _FILL_THEIRS, "bench_kafka_messages")


def ours(case: Case, **definition: Any) -> float:
    """Drain the outbox and return messages a second, start included."""
    begun = time.monotonic()
    drained = case.outbox.drain(**definition)
    seconds = time.monotonic() - begun
    assert drained.messages == case.messages, drained
    return case.messages / seconds


def ours_first(case: Case, messages: int) -> float:
    """Drain so many of those that wait, and return messages a second."""
    begun = time.monotonic()
    drained = case.outbox.drain_until_sent(messages)
    return drained / (time.monotonic() - begun)


def plain(case: Case) -> float:
    """Read pages by id and produce, and return messages a second."""
    begun = time.monotonic()
    producer = _producer(case.outbox.kafka)
    with psycopg.connect(case.outbox.database_url) as connection:
        last = 0
        while True:
            rows = connection.execute(
                "SELECT id, topic, message, key FROM bench_kafka_messages WHERE id > %s ORDER BY id LIMIT %s",
                [last, _PAGE],
                binary=True,
            ).fetchall()
            if not rows:
                break
            last = rows[-1][0]
            for _, topic, message, key in rows:
                _produce(producer, topic, message, key)
    assert producer.flush(_SECONDS) == 0
    return case.messages / (time.monotonic() - begun)


def deimos(case: Case) -> float:
    """Do what Deimos's document says, and return messages a second."""
    begun = time.monotonic()
    producer = _producer(case.outbox.kafka)
    sent = 0
    with psycopg.connect(case.outbox.database_url, autocommit=True) as connection:
        for (topic,) in connection.execute("SELECT DISTINCT topic FROM bench_kafka_messages").fetchall():
            connection.execute("INSERT INTO bench_kafka_topic_info (topic) VALUES (%s) ON CONFLICT DO NOTHING", [topic])
            connection.execute("UPDATE bench_kafka_topic_info SET locked_by = 'us', locked_at = now()")
            while rows := connection.execute(
                "SELECT id, topic, message, key FROM bench_kafka_messages WHERE topic = %s ORDER BY id LIMIT %s",
                [topic, _DEIMOS_BATCH],
                binary=True,
            ).fetchall():
                for _, name, message, key in rows:
                    _produce(producer, name, message, key)
                assert producer.flush(_SECONDS) == 0
                ids = [row[0] for row in rows]
                connection.execute("DELETE FROM bench_kafka_messages WHERE id = ANY (%s)", [ids])
                connection.execute("UPDATE bench_kafka_topic_info SET locked_at = now()")
                sent += len(rows)
    assert sent == case.messages
    return sent / (time.monotonic() - begun)


WAYS: Final[Mapping[str, tuple[Callable[[Case], None], Callable[[Case], float]]]] = {
    "plain SELECT and producer": (fill_theirs, plain),
    "Deimos's algorithm": (fill_theirs, deimos),
    "outbox, exactly once": (fill_ours, ours),
    "outbox, at least once": (fill_ours, lambda case: ours(case, mode="at-least-once")),
}


def enqueue_seconds(case: Case, messages_a_call: int) -> float:
    """Return what a message costs the writer's transaction, without the commit."""
    batch = [
        OutboxMessage(topic=case.topic, key=f"key-{n}", value=b"x" * MESSAGE_BYTES) for n in range(messages_a_call)
    ]
    calls = max(1, case.messages // messages_a_call)
    with case.outbox.connect() as connection:
        spent = 0.0
        for _ in range(calls):
            begun = time.monotonic()
            enqueue(connection, batch)
            spent += time.monotonic() - begun
            connection.rollback()
    return spent / (calls * messages_a_call)


@contextmanager
def emptied(case: Case) -> Iterator[None]:
    """Leave no rows behind."""
    try:
        yield
    finally:
        with psycopg.connect(case.outbox.database_url, autocommit=True) as connection:
            connection.execute("TRUNCATE workorders.outbox_messages")
            connection.execute("DROP TABLE IF EXISTS bench_kafka_messages, bench_kafka_topic_info")


def _fill(case: Case, statement: str, table: str) -> None:
    arguments = {"topic": case.topic, "keys": _KEYS, "bytes": MESSAGE_BYTES, "messages": case.messages}
    with psycopg.connect(case.outbox.database_url, autocommit=True) as connection:
        connection.execute(statement.encode(), arguments)
        connection.execute(f"VACUUM ANALYZE {table}".encode())


def _producer(settings: Mapping[str, Any]) -> Producer:
    return Producer(
        {
            **settings,
            "enable.idempotence": True,
            "acks": "all",
            "compression.type": "lz4",
            "linger.ms": 5,
            "batch.num.messages": 10_000,
            "partitioner": "murmur2_random",
            "delivery.report.only.error": True,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_048_576,
        }
    )


def _produce(producer: Producer, topic: str, message: bytes, key: bytes) -> None:
    while True:
        try:
            producer.produce(topic, message, key)
        except BufferError:
            producer.poll(0.05)
        else:
            return
