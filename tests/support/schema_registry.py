"""A schema registry of a test's own, and payloads that name its schemas."""

import tempfile
from collections.abc import Mapping
from typing import Any

import fastavro
import orjson
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from local_stack.schema_registry import SchemaRegistryServer
from local_stack.stack import LocalStack


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
