"""Debezium's JDBC sink in a standalone Kafka Connect, which writes the same values into the plain table.

Its settings are those that came out fastest here; README.md here names the most important ones.
"""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psycopg

from benchmarks import connect_jars, plain_table
from benchmarks.backlog import PARTITIONS, Ingested
from local_stack.java import find_java
from local_stack.ports import LOOPBACK, free_port
from local_stack.processes import ManagedProcess
from local_stack.stack import LocalStack
from support.spark_submit import CORES

_TRANSFORM: Final = Path(__file__).with_name("RecordToRow.java")
# Kafka's own script takes G1, with which the sink needs a third more CPU per row.
_JVM_OPTIONS: Final = ("-Xms2G", "-Xmx2G", "-XX:+UseParallelGC")
_SINK: Final = {
    "name": "plain-rows",
    "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
    "tasks.max": str(CORES),
    "insert.mode": "insert",
    "primary.key.mode": "none",
    "schema.evolution": "none",
    "quote.identifiers": "true",
    "collection.name.format": plain_table.TABLE,
    "batch.size": "5000",
    "dialect.postgres.unnest.insert.enabled": "true",
    "connection.pool.min_size": "1",
    "connection.pool.max_size": "2",
    "transforms": "row",
    "transforms.row.type": "RecordToRow",
    "consumer.override.max.poll.records": "5000",
    "consumer.override.auto.offset.reset": "earliest",
    "consumer.override.fetch.min.bytes": "1048576",
}
_ROWS: Final = f"""
SELECT coalesce(sum(last + 1), 0)::bigint FROM (
    SELECT (SELECT max("offset") FROM {plain_table.TABLE} WHERE topic = %s AND partition = number) AS last
    FROM generate_series(0, %s) AS number
)
"""
_LOOK_SECONDS: Final = 0.05
_IDLE_SECONDS: Final = 90.0
"""Time without a new row after which the sink has failed."""


def sink(stack: LocalStack, topic: str, count: int, settings: Mapping[str, str] | None = None) -> Ingested:
    """Let the sink write `count` messages of a topic into the plain table.

    Args:
        stack: where the messages are, and where the table is re-created.
        topic: read from its first message on.
        count: how many messages it has.
        settings: of the connector, which win over the benchmark's own.

    Raises:
        RuntimeError: it stopped before the last message.
    """
    plain_table.create(stack.database_url)
    worker = _worker(stack, topic, settings or {})
    begun = time.monotonic()
    worker.start()
    try:
        working = _watch(stack.database_url, worker, topic, count)
        return Ingested(count, working, time.monotonic() - begun)
    finally:
        worker.stop()


def _worker(stack: LocalStack, topic: str, settings: Mapping[str, str]) -> ManagedProcess:
    home = stack.home / "connect"
    home.mkdir(exist_ok=True)
    worker = {
        "bootstrap.servers": stack.bootstrap_servers,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "header.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "listeners": f"http://{LOOPBACK}:{free_port()}",
    }
    connection = {
        **_SINK,
        "topics": topic,
        # Each run reads from the beginning.
        "consumer.override.group.id": f"connect-{time.time_ns()}",
        **connection_settings(stack.database_url, "?reWriteBatchedInserts=true"),
        **settings,
    }
    return stack.process("connect", command(home, worker, connection, _TRANSFORM, _JVM_OPTIONS))


def connection_settings(url: str, options: str = "") -> dict[str, str]:
    """Return the sink's settings for a database."""
    database = urlsplit(url)
    return {
        "connection.url": f"jdbc:postgresql://{database.hostname}:{database.port}{database.path}{options}",
        "connection.username": database.username or "",
        "connection.password": database.password or "",
    }


def command(
    home: Path, worker: Mapping[str, str], sink: Mapping[str, str], transform: Path, jvm_options: Sequence[str]
) -> list[str | Path]:
    """Write the settings of a standalone Kafka Connect and of its one sink, compile a transform; return the command."""
    class_path = os.pathsep.join([str(home), *map(str, connect_jars.fetch())])
    java = find_java()
    subprocess.run([java.home / "bin" / "javac", "-cp", class_path, "-d", home, transform], check=True)
    kept = {"offset.storage.file.filename": str(home / "offsets"), "plugin.discovery": "service_load"}
    _write(home / "worker.properties", {**kept, **worker})
    _write(home / "sink.properties", sink)
    return [
        java.program,
        *jvm_options,
        *("-cp", class_path, "org.apache.kafka.connect.cli.ConnectStandalone"),
        home / "worker.properties",
        home / "sink.properties",
    ]


def _write(file: Path, settings: Mapping[str, str]) -> None:
    file.touch(mode=0o600)  # one of them has a password
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")


def _watch(url: str, worker: ManagedProcess, topic: str, count: int) -> float:
    """Wait for the last row; return the seconds since the last look that found none: the first batch takes no time."""
    seen, began, changed = 0, time.monotonic(), time.monotonic()
    with psycopg.connect(url, autocommit=True) as connection:
        while seen < count:
            time.sleep(_LOOK_SECONDS)
            now, found = time.monotonic(), _rows(connection, topic)
            if found == seen and (now - changed > _IDLE_SECONDS or not worker.running):
                log = worker.log.read_text(encoding="utf-8", errors="replace")[-4000:]
                raise RuntimeError(f"Debezium's sink wrote {found} rows of {count}; its log ends:\n{log}")
            if found == 0:
                began = now
            if found != seen:
                seen, changed = found, now
    return changed - began


def _rows(connection: psycopg.Connection, topic: str) -> int:
    """Return how many rows there are: within a partition, they are written in the order of their offsets."""
    row = connection.execute(_ROWS.encode(), (topic, PARTITIONS - 1)).fetchone()
    return 0 if row is None else int(row[0])
