"""A schema registry of a test's own, and payloads that name its schemas."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import fastavro
import orjson
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError

from local_stack.schema_registry import SchemaRegistryServer
from local_stack.stack import LocalStack
from workorders.core.items import Rejection
from workorders.kafka.formats import payloads
from workorders.kafka.formats.decoded import Decoded, Decoder, Headers
from workorders.kafka.formats.registry import RegistryDecoder, SchemaRegistry
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
        self._client = self  # type: ignore[assignment]
        self.asked = 0
        self._references = references or {}
        names = list(self._references) if refers is None else refers
        self._schema = None if schema is None else _schema(schema, names)

    def get_schema(self, _schema_id: int, fmt: str | None = None) -> Schema:
        """Return the schema, as the client of a registry does."""
        self.asked += 1
        if self._schema is None:
            raise SchemaRegistryError(404, 40403, "Schema not found")
        return self._schema

    def get_version(self, subject: str, _version: int, fmt: str | None = None) -> SimpleNamespace:
        """Return the schema of a name, as the client of a registry does."""
        self.asked += 1
        return SimpleNamespace(schema=_schema(*self._references[subject]))

    def clear_caches(self) -> None:
        """Do nothing, because nothing is cached."""


def _schema(schema: Any, references: Sequence[str]) -> Schema:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return Schema(text, "AVRO", [SchemaReference(name, name, 1) for name in references])


def decode(decoder: Decoder | RegistryDecoder, payload: bytes, headers: Headers = ()) -> Decoded | Rejection:
    """Return what becomes of a value of the topic `orders`."""
    made = Decoder(decoder.decode, decoder.rule)
    return payloads.decode(made, "value", payload, headers, DEFAULT_MAX_MESSAGE_BYTES)
