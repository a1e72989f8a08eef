"""JSON that a JSON Schema must accept: one of a registry, or that of a trigger's file."""

import json
import re
from contextlib import suppress
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import Any, Final

import jsonschema_rs
import orjson

from workorders.kafka.definition.json_schema import Validator
from workorders.kafka.formats.decoded import BAD_VALUE, Budget, Decoded, Headers, ReadPayload, RefusedPayloadError
from workorders.kafka.formats.registry import SchemaRegistry

_LONG_NUMBER: Final = re.compile(rb"[0-9][0-9.]{15}")
"""A number that a double may round has as many digits; what looks like one in a text is loaded exactly, too."""
_MAX_COMPARED: Final = 1000
"""Numbers that a double may round: `uniqueItems` compares each with each."""
_MAX_DIGITS: Final = 1000
_MAX_RULE: Final = 200


def parse(registry: SchemaRegistry, schema_id: int) -> ReadPayload:
    """Return what checks the payloads of a schema.

    Raises:
        ValueError: it is no JSON Schema, or it refers to one that is not registered as its reference.
        UnknownSchemaError: the registry does not have it, or one that it refers to.
    """
    *references, (_, schema) = ((name, json.loads(text)) for name, text in registry.texts(schema_id).items())
    return partial(_read, Validator(schema, references))


def _read(validator: Validator, payload: bytes, _budget: Budget) -> bytes:
    try:
        _require_valid(validator, payload)
    except orjson.JSONDecodeError as error:
        raise RefusedPayloadError(f"it is not JSON ({error.msg}); {BAD_VALUE}", "undecodable") from None
    return payload


def _require_valid(validator: Validator, payload: bytes) -> None:
    value = orjson.loads(payload)
    if not validator.can_check(payload, value):
        raise RefusedPayloadError("to check it would take too long; the sender must split it", "too-large")
    try:
        validator.validate(_exact(payload, value, is_exact_as_a_set=not validator.compares_items))
    except jsonschema_rs.ValidationError as error:
        # Its own message quotes the value. Of both paths, only that into the schema is free of the message's words.
        rule = "/".join(map(str, error.schema_path))[:_MAX_RULE]
        raise RefusedPayloadError(f"the rule /{rule} does not hold") from None
    except ValueError:  # it copies the value for that error, of 255 levels at most
        raise RefusedPayloadError("a rule does not hold for a value of very many levels") from None


def _exact(payload: bytes, value: Any, *, is_exact_as_a_set: bool) -> Any:
    """Return a value whose numbers are exact, unless they are so many that to compare each two would take too long."""
    if _LONG_NUMBER.search(payload) is None:
        return value
    if is_exact_as_a_set or sum(1 for _ in islice(_LONG_NUMBER.finditer(payload), _MAX_COMPARED + 1)) <= _MAX_COMPARED:
        with suppress(RecursionError):  # `orjson` reads deeper values
            return json.loads(payload, parse_float=_exact_float)
    return value


def _exact_float(text: str) -> Decimal | float:
    return Decimal(text) if len(text) <= _MAX_DIGITS else float(text)


class FileSchemaDecoder:
    """Checks plain JSON by the schema of a trigger's file."""

    def __init__(self, schema: str) -> None:
        """Take a JSON Schema as text."""
        self._validator = Validator(json.loads(schema))

    def rule(self, _payload: bytes) -> str:
        """Return the name of the field."""
        return "json_schema"

    def decode(self, _topic: str, payload: bytes, _headers: Headers, _budget: Budget) -> Decoded:
        """Return the payload itself, also if it is no JSON, which the validation of all values names."""
        with suppress(orjson.JSONDecodeError):
            _require_valid(self._validator, payload)
        return Decoded(payload)


def make_decoder(json_schema: str | None) -> FileSchemaDecoder:
    """Return what checks plain JSON by a schema; without one, everything is accepted."""
    return FileSchemaDecoder(json_schema or "true")
