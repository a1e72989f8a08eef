"""Avro to JSON, by fastavro, with logical types as exact texts."""

import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from io import BytesIO
from itertools import count, islice
from typing import Any, Final, NamedTuple
from uuid import UUID

import fastavro
import orjson

from workorders.kafka.formats.decoded import BAD_BYTES, BAD_VALUE, ReadPayload, RefusedPayloadError, UnsafeSchemaError
from workorders.kafka.formats.registry import SchemaRegistry

_BYTES: Final = {"float": 4, "double": 8, "null": 0}
_MAX_VALUES: Final = 100_000
_MARK: Final = "workorders-"
_MAX_SCALE: Final = 1000
"""A decimal of a few bytes is a text of as many digits."""
_MAX_DECIMAL_BYTES: Final = 1000
_LOCATED_BYTES: Final = 64 * 1024
"""To find the wrong value in a longer payload, piece by piece, would take too long."""
_MICROS: Final = 10**6
_SECONDS_PER_DAY: Final = 86_400
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_DAYS_OF_400_YEARS: Final = 146_097
_UUID: Final = re.compile("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def parse(registry: SchemaRegistry, schema_id: int) -> ReadPayload:
    """Return what reads the payloads of a schema.

    Raises:
        UnsafeSchemaError: it is no Avro schema, or a few bytes could exhaust the process by it.
        UnknownSchemaError: the registry does not have it, or one that it refers to.
    """
    named: dict[str, Any] = {}
    schema = _parsed(registry, registry.schema(schema_id), named)
    Types(named).require_bounded(schema)
    return partial(_read, schema, named)


def _parsed(registry: SchemaRegistry, found: Any, named: dict[str, Any]) -> Any:
    for reference in found.references or ():
        _parsed(registry, registry.reference(reference.subject, reference.version), named)
    try:
        return fastavro.parse_schema(_marked(orjson.loads(found.schema_str)), named_schemas=named)
    except UnsafeSchemaError:
        raise
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
    """Return a schema whose floating point numbers and logical types are read by `_TEXTS`.

    Raises:
        UnsafeSchemaError: a decimal of a few bytes is a very long text.
    """
    if isinstance(schema, list):
        return [_marked(one) for one in schema]
    if isinstance(schema, dict):
        marked = {name: _marked(schema[name]) for name in ("type", "items", "values") if name in schema}
        if "fields" in schema:
            marked["fields"] = [{**field, "type": _marked(field["type"])} for field in schema["fields"]]
        logical = str(schema.get("logicalType"))
        if f"{schema.get('type')}-{_MARK}{logical}" in _TEXTS and _applies(schema, logical):
            marked["logicalType"] = f"{_MARK}{logical}"
        return {**schema, **marked}
    return {"type": schema, "logicalType": f"{_MARK}number"} if schema in {"float", "double"} else schema


def _applies(schema: Mapping[str, Any], logical: str) -> bool:
    """Return whether a logical type is valid; otherwise Avro has a value of the underlying type."""
    if logical == "uuid":
        return bool(schema["type"] == "string" or schema["size"] == 16)  # noqa: PLR2004 - bytes of a UUID
    if logical == "decimal" and not 0 <= schema.get("scale", 0) <= _MAX_SCALE:
        raise UnsafeSchemaError(f"a decimal has a scale that is not from 0 to {_MAX_SCALE}")
    return True


class _OddValueError(ValueError):
    """A value has no exact text; the message is a clause after its path."""


def _number(value: float, *_schemas: Any) -> float | str:
    """Return a number, or a text if JSON has no such number: those that the JSON of Protobuf has."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decimal(value: bytes, schema: Mapping[str, Any], *_schemas: Any) -> str:
    """Return all digits of a decimal, also those beyond its schema's precision."""
    if not 0 < len(value) <= _MAX_DECIMAL_BYTES:
        raise _OddValueError(f"is a decimal that does not have 1 to {_MAX_DECIMAL_BYTES} bytes")
    unscaled, scale = int.from_bytes(value, "big", signed=True), schema.get("scale", 0)
    digits = f"{abs(unscaled):0{scale + 1}d}"
    whole = len(digits) - scale
    return f"{'-' if unscaled < 0 else ''}{digits[:whole]}{'.' if scale else ''}{digits[whole:]}"


def _date(days: int, *_schemas: Any) -> date | str:
    """Return a date; as the text of ISO 8601, which has a sign, if its year is before 1 or after 9999."""
    try:
        return date.fromordinal(days + _EPOCH_ORDINAL)
    except (ValueError, OverflowError):
        cycles, place = divmod(days + _EPOCH_ORDINAL - 1, _DAYS_OF_400_YEARS)
        day = date.fromordinal(place + 1)
        year = day.year + 400 * cycles
        return f"{'+' if year > 0 else ''}{year:0{4 + (year < 0)}d}{day:-%m-%d}"


def _time(per_second: int, value: int, *_schemas: Any) -> str:
    seconds, fraction = divmod(value, per_second)
    if not 0 <= seconds < _SECONDS_PER_DAY:
        raise _OddValueError("is a time of day before 00:00 or after 23:59:59")
    width = 6 if per_second <= _MICROS else 9
    digits = f".{fraction * 10**width // per_second:0{width}d}" if fraction else ""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{digits}"


def _timestamp(per_second: int, epoch: datetime, value: int, *_schemas: Any) -> datetime | str:
    """Return a timestamp; as a text if its year is like that of `_date`, or for its nanoseconds."""
    if per_second <= _MICROS:
        with suppress(OverflowError):
            return epoch + timedelta(microseconds=value * (_MICROS // per_second))
    days, rest = divmod(value, _SECONDS_PER_DAY * per_second)
    return f"{_date(days)}T{_time(per_second, rest)}{'' if epoch.tzinfo is None else 'Z'}"


def _uuid(value: str | bytes, *_schemas: Any) -> str:
    if isinstance(value, bytes):
        return str(UUID(bytes=value))
    if _UUID.fullmatch(value) is None:
        raise _OddValueError("is not a UUID of 32 hexadecimal digits and four hyphens")
    return value


_UNITS: Final = {"millis": 10**3, "micros": _MICROS, "nanos": 10**9}
_EPOCHS: Final = {"": datetime(1970, 1, 1, tzinfo=UTC), "local-": datetime(1970, 1, 1)}
_TEXTS: Final[dict[str, Callable[..., Any]]] = {
    **{f"{type_}-{_MARK}number": _number for type_ in ("float", "double")},
    **{f"{type_}-{_MARK}decimal": _decimal for type_ in ("bytes", "fixed")},
    **{f"{type_}-{_MARK}uuid": _uuid for type_ in ("string", "fixed")},
    f"int-{_MARK}date": _date,
    f"int-{_MARK}time-millis": partial(_time, _UNITS["millis"]),
    f"long-{_MARK}time-micros": partial(_time, _UNITS["micros"]),
    **{
        f"long-{_MARK}{local}timestamp-{name}": partial(_timestamp, unit, epoch)
        for name, unit in _UNITS.items()
        for local, epoch in _EPOCHS.items()
    },
}
fastavro.read.LOGICAL_READERS |= _TEXTS


def _read(schema: Any, named: Mapping[str, Any], payload: bytes) -> bytes:
    stream = BytesIO(payload)
    try:
        value = fastavro.schemaless_reader(stream, schema, None)
    except Exception:
        if len(payload) <= _LOCATED_BYTES:
            _require_readable(named, BytesIO(payload), schema, "")
        raise
    if stream.tell() != len(payload):
        raise RefusedPayloadError(f"{len(payload) - stream.tell()} bytes follow the value; {BAD_BYTES}")
    # A copy, because orjson's results have a buffer of 1 KiB: to keep those of a block takes four times as long as to
    # make them.
    return b"%b" % orjson.dumps(value, default=_base64, option=orjson.OPT_UTC_Z)


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _require_readable(named: Mapping[str, Any], stream: BytesIO, schema: Any, path: str) -> None:
    """Read a value piece by piece.

    Raises:
        RefusedPayloadError: names the first piece that cannot be read, by its path.
    """
    match schema:
        case {"type": "record" | "error", "fields": fields}:
            for field in fields:
                _require_readable(named, stream, field["type"], f"{path}/{field['name']}")
        case {"type": "array", "items": inner}:
            for place in _places(stream, path):
                _require_readable(named, stream, inner, f"{path}/{place}")
        case {"type": "map", "values": inner}:
            for _ in _places(stream, path):
                _piece(stream, "string", f"{path}/*")
                _require_readable(named, stream, inner, f"{path}/*")
        case list():
            index = _piece(stream, "long", path)
            if not 0 <= index < len(schema):
                raise RefusedPayloadError.at(path, "is of a type that its union does not have", BAD_BYTES)
            _require_readable(named, stream, schema[index], path)
        case {"type": dict() | list() as inner}:
            _require_readable(named, stream, inner, path)
        case str() if schema in named:
            _require_readable(named, stream, named[schema], path)
        case _:
            _piece(stream, schema, path)


def _places(stream: BytesIO, path: str) -> Iterator[int]:
    places = count()
    while size := _piece(stream, "long", path):
        if size < 0:
            _piece(stream, "long", path)  # the bytes of the block
        yield from islice(places, abs(size))


def _piece(stream: BytesIO, schema: Any, path: str) -> Any:
    try:
        return fastavro.schemaless_reader(stream, schema, None)
    except _OddValueError as error:
        raise RefusedPayloadError.at(path, str(error), BAD_VALUE) from None
    except EOFError:
        clause = "is cut off: the bytes end before the value does"
    except UnicodeDecodeError:
        clause = "is a text that is not UTF-8"
    except Exception:  # noqa: BLE001 - a symbol that an enum does not have is one of several
        clause = "is not a value of its type"
    raise RefusedPayloadError.at(path, clause, BAD_BYTES)
