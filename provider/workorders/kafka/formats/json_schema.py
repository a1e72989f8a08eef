"""JSON that a JSON Schema must accept: one of a registry, or that of a trigger's file."""

import json
import re
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any, Final

import jsonschema_rs
import orjson

from workorders.core.items import Rejection
from workorders.kafka.definition.json_schema import make_validator
from workorders.kafka.formats.decoded import (
    BAD_VALUE,
    Decoded,
    Headers,
    ReadPayload,
    RefusedPayloadError,
    UnsafeSchemaError,
)
from workorders.kafka.formats.registry import SchemaRegistry

_LONG_NUMBER: Final = re.compile(rb"[0-9][0-9.]{15}")
"""A number that a double may round has as many digits; what looks like one in a text is loaded exactly, too."""


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
        references = [(name, json.loads(text)) for name, text in texts.items()]
        validator = make_validator(json.loads(found.schema_str or ""), references)
    except Exception as error:
        raise UnsafeSchemaError(f"it is no JSON Schema that can be used ({type(error).__name__})") from error
    return partial(_read, validator)


def _collect_references(registry: SchemaRegistry, found: Any, texts: dict[str, str]) -> None:
    for reference in found.references or ():
        referred = registry.reference(reference.subject, reference.version)
        texts[reference.name] = referred.schema_str or ""
        _collect_references(registry, referred, texts)


def _read(validator: Any, payload: bytes) -> bytes:
    try:
        _require_valid(validator, payload)
    except orjson.JSONDecodeError as error:
        raise RefusedPayloadError(f"it is not JSON ({error.msg}); {BAD_VALUE}", "undecodable") from None
    return payload


def _require_valid(validator: Any, payload: bytes) -> None:
    try:
        validator.validate(_exact(payload))
    except jsonschema_rs.ValidationError as error:
        # Its own message quotes the value. Of both paths, only that into the schema is free of the message's words.
        rule = "/".join(map(str, error.schema_path))
        raise RefusedPayloadError(f"the rule /{rule} does not hold") from None


def _exact(payload: bytes) -> Any:
    value = orjson.loads(payload)
    if _LONG_NUMBER.search(payload) is not None:
        with suppress(RecursionError):  # `orjson` reads deeper values
            return json.loads(payload, parse_float=Decimal)
    return value


class FileSchemaDecoder:
    """Checks plain JSON by the schema of a trigger's file."""

    def __init__(self, schema: str) -> None:
        """Take a JSON Schema as text."""
        self._validator = make_validator(json.loads(schema))

    def decode(self, _topic: str, payload: bytes, _headers: Headers = ()) -> Decoded | Rejection:
        """Return the payload itself, or why the schema refuses it; what is no JSON is returned for others to name."""
        try:
            _require_valid(self._validator, payload)
        except RefusedPayloadError as refused:
            return Rejection("schema-violated", f"the value violates json_schema: {refused}")
        except orjson.JSONDecodeError:
            pass
        return Decoded(payload)


def make_decoder(json_schema: str | None) -> FileSchemaDecoder:
    """Return what checks plain JSON by a schema; without one, everything is accepted."""
    return FileSchemaDecoder(json_schema or "true")
