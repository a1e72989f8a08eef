"""Debezium's JDBC sink in a standalone Kafka Connect."""

import json
import urllib.error
import urllib.request
from typing import Any, Final

from confluent_kafka import Message

from benchmarks import connect_jars, debezium_sink
from compare.case import Case
from compare.peer import HERE, Command, Peer
from local_stack.ports import LOOPBACK, free_port
from support.consumed import consumed

_SINK: Final = "https://debezium.io/documentation/reference/stable/connectors/jdbc.html"
_CONNECT: Final = "https://kafka.apache.org/documentation/#sinkconnectconfigs"
_TRANSFORM: Final = HERE / "MessageToRow.java"
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

    in_java = True
    patience = 75.0
    """A task that could not write says so at its next flush of offsets, after `offset.flush.interval.ms`: a minute."""

    def version(self) -> str:
        coordinate = next(root for root in connect_jars.ROOTS if root.startswith("io.debezium:"))
        return f"Debezium JDBC sink {coordinate.rsplit(':', 1)[1]}"

    def parts(self) -> int:
        return len(connect_jars.fetch())

    def prepare(self, case: Case) -> None:
        case.topics.create(_dead(case), 1)
        case.site.admin(f'ALTER TABLE {case.table} ADD UNIQUE (topic, partition, "offset")')
        case.insert = b"INSERT INTO"  # it writes nothing else

    def command(self, case: Case, number: int) -> Command:
        home = case.site.stack.home / f"connect-{case.table}-{number}"
        home.mkdir(exist_ok=True)
        case.rest[number] = f"http://{LOOPBACK}:{free_port()}"
        worker = {**_WORKER, "bootstrap.servers": case.servers, "listeners": case.rest[number]}
        sink = {
            **_CONNECTOR,
            "topics": case.topic,
            "collection.name.format": case.table,
            "consumer.override.group.id": self.group_id(case),
            "errors.deadletterqueue.topic.name": _dead(case),
            **debezium_sink.connection_settings(case.url()),
        }
        words = debezium_sink.command(home, worker, sink, _TRANSFORM, _JVM_OPTIONS)
        java = case.variables.get("JAVA_HOME")
        return Command([f"{java}/bin/java", *words[1:]] if java else words)

    def kept(self, case: Case) -> int:
        dead = consumed(case.site.kafka_settings, _dead(case))
        # After a crash, one comes again. In a topic that is re-created, others are at the same offsets.
        return len({(message.value(), *_origin(message)) for message in dead})

    def halted(self, case: Case) -> str:
        failed = [task for listener in case.rest.values() for task in _tasks(listener) if task["state"] == "FAILED"]
        return f"{len(failed)} tasks FAILED: {failed[0]['trace'].splitlines()[0]}" if failed else ""

    def remedy(self, case: Case) -> str:
        if not self.halted(case):
            return ""
        for listener in case.rest.values():
            _ask(f"{listener}/connectors/rows/restart?includeTasks=true&onlyFailed=true", "POST")
        return "a restart of the failed tasks"


def _origin(message: Message) -> tuple[str, ...]:
    """Return the partition and the offset that Kafka Connect has kept of a message."""
    headers = dict(message.headers() or [])
    return tuple(str(headers[f"__connect.errors.{name}"]) for name in ("partition", "offset"))


def _dead(case: Case) -> str:
    return f"{case.topic}-dead"


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
