"""A schema registry of a test's own, and payloads that name its schemas."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import orjson
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

from local_stack.schema_registry import SchemaRegistryServer
from local_stack.stack import LocalStack
from workorders.core.items import Rejection
from workorders.kafka.formats import payloads
from workorders.kafka.formats.decoded import Decoded, Decoder, Headers
from workorders.kafka.formats.registry import RegistryDecoder, SchemaRegistry, UnknownSchemaError
from workorders.kafka.partitions import DEFAULT_MAX_MESSAGE_BYTES


class RegistryServer(SchemaRegistryServer):
    """A registry as a process of a stack."""

    def __init__(self, stack: LocalStack) -> None:
        super().__init__(stack.process)

    def register(self, subject: str, schema: Any, type_: str = "AVRO") -> int:
        """Register a schema and return its id."""
        return register(self, subject, schema, type_)


def register(registry: SchemaRegistryServer, subject: str, schema: Any, type_: str = "AVRO") -> int:
    """Register a schema, as text or as JSON, and return its id."""
    text = schema if isinstance(schema, str) else orjson.dumps(schema).decode()
    return int(SchemaRegistryClient(registry.settings).register_schema(subject, Schema(text, type_)))


def framed(schema_id: int, payload: bytes) -> bytes:
    """Return a payload with the id of its schema."""
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def avro(schema_id: int, schema: Mapping[str, Any], value: Any) -> bytes:
    """Return a value in Avro with the id of its schema."""
    with tempfile.SpooledTemporaryFile() as file:
        fastavro.schemaless_writer(file, dict(schema), value)
        file.seek(0)
        return framed(schema_id, file.read())


class Registered(SchemaRegistry):
    """A registry without a network: the schema of each id, and those that it refers to by their names."""

    def __init__(
        self,
        schema: Any,
        references: Mapping[str, tuple[Any, Sequence[str]]] | None = None,
        refers: Sequence[str] | None = None,
    ) -> None:
        """Take schemas as texts or as JSON.

        Args:
            schema: the schema of each id; None for a registry that knows no id.
            references: by name the others, with the names of those that they refer to.
            refers: the names of those that the schema refers to; all if not given.
        """
        self.asked = 0
        self._references = references or {}
        names = list(self._references) if refers is None else refers
        self._schema = None if schema is None else _schema(schema, names)

    def schema(self, _schema_id: int, fmt: str | None = None) -> Schema:
        """Return the schema."""
        self.asked += 1
        if self._schema is None:
            raise UnknownSchemaError("does not have")
        return self._schema

    def reference(self, subject: str, _version: int, fmt: str | None = None) -> Schema:
        """Return the schema of a name."""
        self.asked += 1
        return _schema(*self._references[subject])


def _schema(schema: Any, references: Sequence[str]) -> Schema:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return Schema(text, "AVRO", [SchemaReference(name, name, 1) for name in references])


def decode(decoder: Decoder | RegistryDecoder, payload: bytes, headers: Headers = ()) -> Decoded | Rejection:
    """Return what becomes of a value of the topic `orders`."""
    made = Decoder(decoder.decode, decoder.rule)
    return payloads.decode(made, "value", payload, headers, DEFAULT_MAX_MESSAGE_BYTES)
