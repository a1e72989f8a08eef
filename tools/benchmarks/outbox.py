"""Carrying rows from Postgres to Kafka: ours, a plain program, and the algorithm of Deimos's document.

All three send the same messages from tables with as many rows, in one Python process each, with acks=all and the same
compression. The plain program reads pages and forgets nothing; it could not continue after a crash, and measures what
reading and producing cost by themselves.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Final

import psycopg
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from support.outbox import Outbox
from workorders.outbox import OutboxMessage, enqueue
from workorders.outbox.relay.relay import run_relay

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
    """Let messages wait in the outbox."""
    _fill(case, _FILL_OURS, "workorders.outbox_messages")


def fill_theirs(case: Case) -> None:
    """Let messages wait in a table as Deimos has it."""
    with psycopg.connect(case.outbox.database_url, autocommit=True) as connection:
        connection.execute(_CREATE_THEIRS)
    _fill(case, _FILL_THEIRS, "bench_kafka_messages")


def ours(case: Case) -> float:
    """Drain the outbox and return messages a second, start included."""
    begun = time.monotonic()
    drained = case.outbox.relay()
    seconds = time.monotonic() - begun
    assert drained.messages == case.messages, drained
    return case.messages / seconds


def ours_in_shards(case: Case) -> float:
    """Drain the outbox with a relay for each shard at the same time, in separate processes as Airflow's tasks are.

    Returns:
        Messages a second, from the moment when all processes have loaded their code, as `ours` has.
    """
    shards = case.outbox.definition.shards
    with ExitStack() as opened:
        pools = [opened.enter_context(ProcessPoolExecutor(1, get_context("spawn"))) for _ in range(shards)]
        for pool in pools:
            pool.submit(_loaded).result()
        begun = time.monotonic()
        drains = [pool.submit(_drain_shard, case.outbox, shard) for shard, pool in enumerate(pools)]
        sent = sum(drained.result() for drained in drains)
        seconds = time.monotonic() - begun
    assert sent == case.messages, sent
    return sent / seconds


def _loaded() -> bool:
    return True


def _drain_shard(outbox: Outbox, shard: int) -> int:
    return run_relay(outbox.connections, outbox.definition, shard=shard).messages


def ours_of_backlog(case: Case, messages: int) -> float:
    """Send about `messages` of those that wait, and return messages a second."""
    stop = threading.Event()
    watch = threading.Thread(target=_stop_when, args=(case, messages, stop))
    watch.start()
    begun = time.monotonic()
    drained = case.outbox.relay_until(stop)
    seconds = time.monotonic() - begun
    watch.join()
    return drained.messages / seconds


def seconds_to_consumer(case: Case) -> list[float]:
    """Return the time from a commit to a consumer of committed messages, through a warm relay."""
    stop = threading.Event()
    relay = threading.Thread(target=case.outbox.relay_until, args=(stop,))
    relay.start()
    consumer = Consumer(
        {
            **case.outbox.kafka,
            "group.id": "bench-never-joined",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
    )
    partitions = consumer.list_topics(case.topic, timeout=_SECONDS).topics[case.topic].partitions
    consumer.assign([TopicPartition(case.topic, number, OFFSET_BEGINNING) for number in partitions])
    try:
        # The first one waits for the relay's start.
        return [_seconds_of_one(case, consumer) for _ in range(case.messages + 1)][1:]
    finally:
        stop.set()
        relay.join()
        consumer.close()


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
    """Do what Deimos's document describes, and return messages a second."""
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


WAYS: Final[Mapping[str, tuple[int, Callable[[Case], None], Callable[[Case], float]]]] = {
    "plain SELECT and producer": (1, fill_theirs, plain),
    "Deimos's algorithm": (1, fill_theirs, deimos),
    "outbox": (1, fill_ours, ours),
    "outbox, 2 shards": (2, fill_ours, ours_in_shards),
}
"""Each with the number of the outbox's shards, and what fills and drains its tables."""


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


def _seconds_of_one(case: Case, consumer: Consumer) -> float:
    case.outbox.write(OutboxMessage(topic=case.topic, key="k", value=b"x" * MESSAGE_BYTES))
    committed = time.monotonic()
    while True:
        message = consumer.poll(_SECONDS)
        assert message is not None
        if message.error() is None:
            # A relay that has just looked waits a while: the next message comes at another moment of its turn.
            time.sleep(0.037)
            return time.monotonic() - committed - 0.037


def _stop_when(case: Case, messages: int, stop: threading.Event) -> None:
    with psycopg.connect(case.outbox.database_url, autocommit=True) as connection:
        while not stop.wait(0.05):
            row = connection.execute("SELECT coalesce(sum(sent), 0) FROM workorders.outbox_counters").fetchone()
            if row and row[0] >= messages:
                stop.set()


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
