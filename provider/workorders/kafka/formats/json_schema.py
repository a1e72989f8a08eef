"""JSON that a JSON Schema must accept: one of a registry, or that of a trigger's file."""

from functools import partial
from typing import Any

import jsonschema_rs
import orjson

from workorders.core.items import Rejection
from workorders.kafka.definition.json_schema import make_validator
from workorders.kafka.formats.decoders import ReadPayload, RefusedPayloadError, UnsafeSchemaError
from workorders.kafka.formats.payloads import Decoded, Headers
from workorders.kafka.formats.registry import SchemaRegistry


def parse(registry: SchemaRegistry, schema_id: int) -> ReadPayload:
    """Return what checks the payloads of a schema.

    Raises:
        UnsafeSchemaError: it is no JSON Schema, or it refers to one that is not registered as its reference.
        UnknownSchemaError: the registry does not have it, or one that it refers to.
    """
    found = registry.schema(schema_id)
    texts: dict[str, str] = {}
    _collect_references(registry, found, texts)
    try:
        references = [(name, orjson.loads(text)) for name, text in texts.items()]
        validator = make_validator(orjson.loads(found.schema_str or ""), references)
    except Exception as error:
        raise UnsafeSchemaError(f"it is no JSON Schema that can be used ({type(error).__name__})") from error
    return partial(_read, validator)


def _collect_references(registry: SchemaRegistry, found: Any, texts: dict[str, str]) -> None:
    for reference in found.references or ():
        referred = registry.reference(reference.subject, reference.version)
        texts[reference.name] = referred.schema_str or ""
        _collect_references(registry, referred, texts)


def _read(validator: Any, payload: bytes) -> bytes:
    _require_valid(validator, orjson.loads(payload))
    return payload


def _require_valid(validator: Any, value: Any) -> None:
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        # Its own message quotes the value. Of both paths, only that into the schema is free of the message's words.
        rule = "/".join(map(str, error.schema_path))
        raise RefusedPayloadError(f"the rule /{rule} does not hold") from None


class FileSchemaDecoder:
    """Checks plain JSON by the schema of a trigger's file."""

    def __init__(self, schema: str) -> None:
        """Take a JSON Schema as text."""
        self._validator = make_validator(orjson.loads(schema))

    def decode(self, _topic: str, payload: bytes, _headers: Headers = ()) -> Decoded | Rejection:
        """Return the payload itself, or why the schema refuses it; what is no JSON is returned for others to name."""
        try:
            _require_valid(self._validator, orjson.loads(payload))
        except RefusedPayloadError as refused:
            return Rejection("schema-violated", f"the value violates json_schema: {refused}")
        except orjson.JSONDecodeError:
            pass
        return Decoded(payload)
