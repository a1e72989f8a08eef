"""Avro to JSON, by fastavro."""

import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from io import BytesIO
from typing import Any, Final, NamedTuple

import fastavro
import orjson

from workorders.kafka.formats.decoders import ReadPayload, RefusedPayloadError, UnsafeSchemaError
from workorders.kafka.formats.registry import SchemaRegistry

_BYTES: Final = {"float": 4, "double": 8, "null": 0}
_MAX_VALUES: Final = 100_000
_NUMBER: Final = "workorders-number"


def parse(registry: SchemaRegistry, schema_id: int) -> ReadPayload:
    """Return what reads the payloads of a schema.

    Raises:
        UnsafeSchemaError: it is no Avro schema, or a few bytes could exhaust the process by it.
        UnknownSchemaError: the registry does not have it, or one that it refers to.
    """
    named: dict[str, Any] = {}
    schema = _parsed(registry, registry.schema(schema_id), named)
    Types(named).require_bounded(schema)
    return partial(_read, schema)


def _parsed(registry: SchemaRegistry, found: Any, named: dict[str, Any]) -> Any:
    for reference in found.references or ():
        _parsed(registry, registry.reference(reference.subject, reference.version), named)
    try:
        return fastavro.parse_schema(_marked(orjson.loads(found.schema_str)), named_schemas=named)
    except Exception as error:
        raise UnsafeSchemaError(f"it is no Avro schema ({type(error).__name__})") from error


class Size(NamedTuple):
    """How large a value of a type is at least."""

    bytes: int
    values: int
    """With the values of all fields in it."""


class Types:
    """The types of a schema, each walked once."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._open: set[str] = set()
        self._known: dict[str, Size] = {}

    def require_bounded(self, schema: Any) -> Size:  # noqa: PLR0911 - one per kind of type
        """Return the size of a type.

        Raises:
            UnsafeSchemaError: a type contains itself, so that nested bytes overflow the decoder's stack; or the items
                of an array take no bytes, so that a few bytes are an array of any length; or a value has very many
                fields.
        """
        match schema:
            case list():
                return Size(1 + min((self.require_bounded(one).bytes for one in schema), default=0), 1)
            case {"type": "record" | "error", "name": name, "fields": fields}:
                return self._record(name, [field["type"] for field in fields])
            case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
                if self.require_bounded(inner).bytes == 0 and schema["type"] == "array":
                    raise UnsafeSchemaError("the items of an array take no bytes")
                return Size(1, 1)
            case {"type": "fixed", "size": size}:
                return Size(int(size), 1)
            case {"type": inner} if inner != "enum":
                return self.require_bounded(inner)
            case str():
                return self._name(schema)
        return Size(1, 1)

    def _name(self, name: str) -> Size:
        if name in self._open:
            raise UnsafeSchemaError(f"the type {name} contains itself")
        if name in self._named:
            return self._known.get(name) or self.require_bounded(self._named[name])
        return Size(_BYTES.get(name, 1), 1)

    def _record(self, name: str, types: Sequence[Any]) -> Size:
        self._open.add(name)
        sizes = [self.require_bounded(type_) for type_ in types]
        self._open.remove(name)
        found = Size(sum(size.bytes for size in sizes), 1 + sum(size.values for size in sizes))
        if found.values > _MAX_VALUES:
            raise UnsafeSchemaError(f"a value of {name} has more than {_MAX_VALUES} fields")
        self._known[name] = found
        return found


def _marked(schema: Any) -> Any:
    """Return a schema whose floating point numbers are read by `_number`."""
    if isinstance(schema, list):
        return [_marked(one) for one in schema]
    if isinstance(schema, dict):
        marked = {name: _marked(schema[name]) for name in ("type", "items", "values") if name in schema}
        if "fields" in schema:
            marked["fields"] = [{**field, "type": _marked(field["type"])} for field in schema["fields"]]
        return {**schema, **marked}
    return {"type": schema, "logicalType": _NUMBER} if schema in {"float", "double"} else schema


def _number(value: float, *_schemas: Any) -> float | str:
    """Return a number, or a text if JSON has no such number: those that the JSON of Protobuf has."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


fastavro.read.LOGICAL_READERS |= {f"{type_}-{_NUMBER}": _number for type_ in ("float", "double")}


def _read(schema: Any, payload: bytes) -> bytes:
    stream = BytesIO(payload)
    value = fastavro.schemaless_reader(stream, schema, None)
    if stream.tell() != len(payload):
        raise RefusedPayloadError(f"{len(payload) - stream.tell()} bytes follow the value")
    # A copy, because orjson's results have a buffer of 1 KiB: to keep those of a block takes four times as long as to
    # make them.
    return b"%b" % orjson.dumps(value, default=_json_value, option=orjson.OPT_UTC_Z)


def _json_value(value: Any) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError(type(value).__name__)
