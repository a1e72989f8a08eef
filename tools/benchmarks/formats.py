"""The benchmarks' messages in each format: the same values, which must become the same work orders."""

import base64
import datetime
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from itertools import chain, count
from typing import Any, Final

import fastavro
import orjson
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from benchmarks import backlog, contents, messages
from benchmarks.backlog import PARTITIONS, Ingested
from benchmarks.create_for import empty_tables
from local_stack.schema_registry import SchemaRegistryServer
from local_stack.stack import LocalStack
from support.schema_registry import framed, register
from workorders.core.postgres.connection import connect
from workorders.kafka.client.secrets import REGISTRY_VARIABLE

Encode = Callable[[Mapping[str, Any]], bytes]
"""Returns a value as a payload, without the id of its schema."""

JSON: Final = "json"
_WARM_UP_MESSAGES: Final = 1_000
_TIME, _NUMBER = "effective", "value"
_FIELDS: Final = tuple(orjson.loads(messages.value(0)))


@dataclass(frozen=True, slots=True)
class Format:
    """A format that needs a schema."""

    schema_type: str
    """Its name in the registry."""
    schema: str
    """As the registry takes it."""
    encode: Encode


def _avro() -> Format:
    types: dict[str, Any] = {
        _TIME: {"type": "long", "logicalType": "timestamp-millis"},
        _NUMBER: "double",
        "status": {"type": "enum", "name": "Status", "symbols": ["preliminary", "final"]},
    }
    fields = [{"name": name, "type": types.get(name, "string")} for name in _FIELDS]
    schema = {"type": "record", "name": "Observation", "fields": fields}
    parsed = fastavro.parse_schema(schema)

    def encode(value: Mapping[str, Any]) -> bytes:
        written = BytesIO()
        fastavro.schemaless_writer(written, parsed, {**value, _TIME: datetime.datetime.fromisoformat(value[_TIME])})
        return written.getvalue()

    return Format("AVRO", json.dumps(schema), encode)


def _protobuf() -> Format:
    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="observation.proto", syntax="proto3", dependency=[timestamp_pb2.DESCRIPTOR.name]
    )
    message = file.message_type.add(name="Observation")
    for number, name in enumerate(_FIELDS, start=1):
        type_ = {_TIME: types.TYPE_MESSAGE, _NUMBER: types.TYPE_DOUBLE}.get(name, types.TYPE_STRING)
        type_name = timestamp_pb2.Timestamp.DESCRIPTOR.full_name if name == _TIME else None
        message.field.add(name=name, number=number, label=types.LABEL_OPTIONAL, type=type_, type_name=type_name)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    observation: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("Observation"))

    def encode(value: Mapping[str, Any]) -> bytes:
        made = observation(**{name: given for name, given in value.items() if name != _TIME})
        made.effective.FromJsonString(value[_TIME])
        payload: bytes = made.SerializeToString()
        return b"\0" + payload

    return Format("PROTOBUF", base64.b64encode(file.SerializeToString()).decode(), encode)


def _json_schema() -> Format:
    types = {_NUMBER: {"type": "number"}, "status": {"enum": ["preliminary", "final"]}}
    properties = {name: types.get(name, {"type": "string"}) for name in _FIELDS}
    schema = {"type": "object", "properties": properties, "required": list(_FIELDS), "additionalProperties": False}
    return Format("JSON", json.dumps(schema), orjson.dumps)


FORMATS: Final[Mapping[str, Callable[[], Format]]] = {
    "avro": _avro,
    "protobuf": _protobuf,
    "json_schema": _json_schema,
}
"""By the name that a trigger's file has for it; JSON needs no schema."""


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics with the same messages, one per format, and what reads them."""

    stack: LocalStack
    registry: SchemaRegistryServer
    topics: Mapping[str, str]
    """By format."""
    messages: int
    _numbers: Iterator[int] = field(default_factory=count)

    def messages_per_second(self, format_: str) -> float:
        """Ingest all messages of a format as one batch of a new trigger, on the stack's Spark Connect server.

        Raises:
            RuntimeError: a message has no work order, or one that is not what the message says.
        """
        with connect(self.stack.database_url) as connection:
            empty_tables(connection)
        topic = self.topics[format_]
        contents.expect(self.stack.database_url, contents.spread(topic, PARTITIONS, self.messages))
        run = self._ingest(format_, topic, self.messages, f"{topic}-{next(self._numbers)}")
        contents.require_right(self.stack.database_url, contents.WORK_ORDERS, self.messages)
        return run.messages / run.working_seconds

    def _ingest(self, format_: str, topic: str, count: int, trigger: str) -> Ingested:
        fields = {} if format_ == JSON else {"format": format_, "registry_connection": "registry"}
        variables = {REGISTRY_VARIABLE: json.dumps(self.registry.settings)}
        return backlog.ingest_on_server(self.stack, topic, count, trigger, fields=fields, variables=variables)

    def warm_up(self, format_: str) -> None:
        """Let the server's Python processes load what a format needs, by a small batch."""
        topic = f"{self.topics[format_]}-warm-up"
        self._ingest(format_, topic, min(_WARM_UP_MESSAGES, self.messages), topic)


@contextmanager
def prepared(stack: LocalStack, word: str, count: int) -> Iterator[Topics]:
    """Produce the messages in each format, for a registry that runs until the end, and start the server."""
    registry = SchemaRegistryServer(stack.process)
    registry.start()
    try:
        topics = {format_: f"{word}-{format_}" for format_ in (JSON, *FORMATS)}
        warm_up = {format_: f"{topic}-warm-up" for format_, topic in topics.items()}
        messages.create_topics(stack.bootstrap_servers, [*chain(topics.values(), warm_up.values())], PARTITIONS)
        for format_, topic in topics.items():
            encode = _encoder(registry, topic, format_)
            for name, number in ((topic, count), (warm_up[format_], min(_WARM_UP_MESSAGES, count))):
                messages.produce(stack.bootstrap_servers, name, PARTITIONS, number, encode)
        stack.start_spark_connect()
        found = Topics(stack, registry, topics, count)
        for format_ in topics:
            found.warm_up(format_)
        yield found
    finally:
        registry.process.kill()


def _encoder(registry: SchemaRegistryServer, topic: str, format_: str) -> Callable[[int], bytes]:
    """Return what makes a message's value from its number; its schema is registered."""
    if format_ == JSON:
        return messages.value
    form = FORMATS[format_]()
    schema_id = register(registry, f"{topic}-value", form.schema, form.schema_type)
    return lambda number: framed(schema_id, form.encode(orjson.loads(messages.value(number))))
