"""Debezium's JDBC sink in a standalone Kafka Connect."""

import json
import os
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks import connect_jars
from compare.case import Case
from compare.peer import LOCKS, Command, Peer
from local_stack.java import find_java
from local_stack.ports import LOOPBACK, free_port

_SINK: Final = "https://debezium.io/documentation/reference/stable/connectors/jdbc.html"
_CONNECT: Final = "https://kafka.apache.org/documentation/#sinkconnectconfigs"
_TRANSFORM: Final = LOCKS / "MessageToRow.java"
_JVM_OPTIONS: Final = ("-Xms512m", "-Xmx512m", "-XX:+UseSerialGC")
_CONNECTOR: Final = {
    "name": "rows",
    "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
    "tasks.max": "2",
    "insert.mode": "upsert",
    "primary.key.mode": "record_value",
    "primary.key.fields": "topic,partition,offset",
    "schema.evolution": "none",
    "quote.identifiers": "true",
    "connection.restart.on.errors": "true",
    "transforms": "row",
    "transforms.row.type": "MessageToRow",
    "errors.tolerance": "all",
    "errors.log.enable": "true",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
    "consumer.override.auto.offset.reset": "earliest",
    # A consumer that was killed keeps its partitions for so long; 45 s by default.
    "consumer.override.session.timeout.ms": "10000",
    "consumer.override.isolation.level": "read_committed",
}
_WORKER: Final = {
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    "plugin.discovery": "service_load",
}


class Debezium(Peer):
    """Debezium's sink."""

    slug = "debezium"
    name = "Debezium's JDBC sink"
    settings = (
        f"[`insert.mode=upsert`, `primary.key.fields=topic,partition,offset`, and `connection.restart.on.errors=true`]"
        f"({_SINK}), "
        f"[`errors.tolerance=all` with a dead letter queue]({_CONNECT})"
    )

    def version(self) -> str:
        coordinate = next(root for root in connect_jars.ROOTS if root.startswith("io.debezium:"))
        return f"Debezium JDBC sink {coordinate.rsplit(':', 1)[1]}"

    def prepare(self, case: Case) -> None:
        case.topics.create(_dead(case), 1)
        case.site.admin(f'ALTER TABLE {case.table} ADD UNIQUE (topic, partition, "offset")')
        case.insert = b"INSERT INTO"  # it writes nothing else

    def command(self, case: Case, number: int) -> Command:
        home = case.site.stack.home / f"connect-{case.table}-{number}"
        home.mkdir(exist_ok=True)
        class_path = os.pathsep.join([str(home), *map(str, connect_jars.fetch())])
        java = find_java()
        subprocess.run([java.home / "bin" / "javac", "-cp", class_path, "-d", home, _TRANSFORM], check=True)
        listener = f"http://{LOOPBACK}:{free_port()}"
        worker = {
            **_WORKER,
            "bootstrap.servers": case.servers,
            "offset.storage.file.filename": str(home / "offsets"),
            "listeners": listener,
        }
        database = urlsplit(case.url())
        sink = {
            **_CONNECTOR,
            "topics": case.topic,
            "collection.name.format": case.table,
            "connection.url": f"jdbc:postgresql://{database.hostname}:{database.port}{database.path}",
            "connection.username": database.username or "",
            "connection.password": database.password or "",
            "consumer.override.group.id": self.group_id(case),
            "errors.deadletterqueue.topic.name": _dead(case),
        }
        for file, settings in {"worker": worker, "sink": sink}.items():
            _write(home / f"{file}.properties", settings)
        main_class = "org.apache.kafka.connect.cli.ConnectStandalone"
        words: list[str | Path] = [java.program, *_JVM_OPTIONS, "-cp", class_path, main_class]
        case.rest[number] = listener
        return Command([*words, home / "worker.properties", home / "sink.properties"])

    def kept(self, case: Case) -> int:
        return sum(case.ends(_dead(case), 1).values())

    def halted(self, case: Case) -> str:
        failed = [task for listener in case.rest.values() for task in _tasks(listener) if task["state"] == "FAILED"]
        return f"{len(failed)} tasks FAILED: {failed[0]['trace'].splitlines()[0]}" if failed else ""

    def remedy(self, case: Case) -> str:
        if not self.halted(case):
            return ""
        for listener in case.rest.values():
            _ask(f"{listener}/connectors/rows/restart?includeTasks=true&onlyFailed=true", "POST")
        return "a restart of the failed tasks"


def _dead(case: Case) -> str:
    return f"{case.topic}-dead"


def _write(file: Path, settings: dict[str, str]) -> None:
    file.touch(mode=0o600)  # one of them has a password
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")


def _tasks(listener: str) -> list[dict[str, Any]]:
    found = _ask(f"{listener}/connectors/rows/status", "GET")
    tasks: list[dict[str, Any]] = found.get("tasks", [])
    return tasks


def _ask(url: str, method: str) -> dict[str, Any]:
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            found: dict[str, Any] = json.loads(answer.read() or b"{}")
            return found
    except (urllib.error.URLError, TimeoutError):
        return {}


DEBEZIUM: Final = Debezium()
