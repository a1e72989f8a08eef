"""JSON that a JSON Schema must accept: one of a registry, or that of a trigger's file."""

import json
from contextlib import suppress
from functools import partial
from typing import Final

import jsonschema_rs
import orjson

from workorders.kafka.definition.json_schema import Validator
from workorders.kafka.formats.decoded import (
    BAD_VALUE,
    Budget,
    Decoded,
    Decoder,
    Headers,
    ReadPayload,
    RefusedPayloadError,
)

_MAX_RULE: Final = 200


def parse(texts: dict[str, str]) -> ReadPayload:
    """Return what checks the payloads of a schema.

    Raises:
        ValueError: it is no JSON Schema, or it refers to one that is not registered as its reference.
    """
    *references, (_, schema) = ((name, json.loads(text)) for name, text in texts.items())
    return partial(_read, Validator(schema, references))


def _read(validator: Validator, payload: bytes, _budget: Budget) -> bytes:
    try:
        _require_valid(validator, payload)
    except orjson.JSONDecodeError as error:
        raise RefusedPayloadError(f"it is not JSON ({error.msg}); {BAD_VALUE}") from None
    return payload


def _require_valid(validator: Validator, payload: bytes) -> None:
    value = orjson.loads(payload)
    if not validator.cost.allows(payload, value):
        raise RefusedPayloadError("to check it would take too long; the sender must split it", "too-large")
    try:
        validator.rules.validate(value)
    except jsonschema_rs.ValidationError as error:
        # Its own message quotes the value. Of both paths, only that into the schema is free of the message's words.
        rule = "/".join(map(str, error.schema_path))[:_MAX_RULE]
        raise RefusedPayloadError(f"the rule /{rule} does not hold", "schema-violated") from None
    except ValueError:  # it copies the value for that error, of 255 levels at most
        raise RefusedPayloadError("a rule does not hold for a value of very many levels", "schema-violated") from None


def make_decoder(json_schema: str | None) -> Decoder:
    """Return what checks plain JSON by the schema of a trigger's file; without one, everything is accepted."""
    return Decoder(partial(_check, Validator(json.loads(json_schema or "true"))), lambda _: "json_schema")


def _check(validator: Validator, payload: bytes, _headers: Headers, _budget: Budget) -> Decoded:
    """Return the payload itself, also if it is no JSON, which the validation of all values names."""
    with suppress(orjson.JSONDecodeError):
        _require_valid(validator, payload)
    return Decoded(payload)
