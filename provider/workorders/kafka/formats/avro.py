"""Avro to JSON, by fastavro, with logical types as exact texts."""

import math
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, date, datetime, timedelta
from functools import partial
from io import BytesIO
from itertools import count, islice
from typing import Any, Final, NamedTuple
from uuid import UUID

import fastavro
import orjson

from workorders.kafka.formats.decoded import (
    BAD_BYTES,
    BAD_VALUE,
    Budget,
    OverBudgetError,
    ReadPayload,
    RefusedPayloadError,
    UnsafeSchemaError,
    require_short,
)

_BYTES: Final = {"float": 4, "double": 8, "null": 0}
_MARK: Final = "workorders-"
_KEPT: Final = ("type", "name", "namespace", "symbols", "size", "logicalType", "precision", "scale")
"""What a reader needs of a type. The library believes other names, such as its mark of a parsed schema."""
_MAX_DEPTH: Final = 200
"""Levels of a schema's types; orjson writes 254."""
_MAX_SCALE: Final = 1000
"""A decimal of a few bytes is a text of as many digits."""
_MAX_DECIMAL_BYTES: Final = 1000
_COST: Final = "workorders-cost"
"""In the schema of a record, the bytes of JSON that it is at least, without records in it."""
_LONG_SYMBOL: Final = 32
_MICROS: Final = 10**6
_SECONDS_PER_DAY: Final = 86_400
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_DAYS_OF_400_YEARS: Final = 146_097
_UUID: Final = re.compile("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def parse(texts: dict[str, str]) -> ReadPayload:
    """Return what reads the payloads of a schema.

    Raises:
        UnsafeSchemaError: a few bytes could exhaust the process by it.
        Exception: it is no Avro schema.
    """
    named: dict[str, Any] = {}
    *references, text = texts.values()
    for reference in dict.fromkeys(references):
        fastavro.parse_schema(_marked(orjson.loads(reference)), named_schemas=named)
    main = _marked(orjson.loads(text))
    if _COST in main:
        main["logicalType"] = None  # it occurs once, so it is not more than the schema
    # In a record, because the library parses any other type again for each message; in no namespace of ours.
    field = {"name": "value", "type": main}
    whole = fastavro.parse_schema({"type": "record", "name": "WorkordersMessage", "fields": [field]}, named)
    Types(named).require_bounded(whole)
    return partial(_read, whole, named)


class Size(NamedTuple):
    """The bytes of a value of a type at least, and its levels at most."""

    bytes: int
    levels: int = 1


class Types:
    """The types of a schema, each walked once."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._open: set[str] = set()
        self._known: dict[str, Size] = {}

    def require_bounded(self, schema: Any) -> Size:  # noqa: PLR0911 - one per kind of type
        """Return the size of a type.

        Raises:
            UnsafeSchemaError: a type contains itself, or has very many levels, so that nested bytes overflow the
                decoder's stack; or the items of an array take no bytes, so that a few bytes are an array of any length.
        """
        match schema:
            case list():
                sizes = [self.require_bounded(one) for one in schema]
                return Size(1 + min((size.bytes for size in sizes), default=0), _levels(sizes))
            case {"type": "record" | "error", "name": name, "fields": fields}:
                self._open.add(name)
                sizes = [self.require_bounded(field["type"]) for field in fields]
                self._open.remove(name)
                self._known[name] = Size(sum(size.bytes for size in sizes), _levels(sizes))
                return self._known[name]
            case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
                size = self.require_bounded(inner)
                if size.bytes == 0 and schema["type"] == "array":
                    raise UnsafeSchemaError("the items of an array take no bytes")
                return Size(1, _levels([size]))
            case {"type": "fixed", "size": length}:
                return Size(int(length))
            case {"type": inner} if inner != "enum":
                return self.require_bounded(inner)
            case str():
                return self._name(schema)
        return Size(1)

    def _name(self, name: str) -> Size:
        if name in self._open:
            raise UnsafeSchemaError(f"the type {name} contains itself")
        if name in self._named:
            return self._known.get(name) or self.require_bounded(self._named[name])
        return Size(_BYTES.get(name, 1))


def _levels(inner: Sequence[Size]) -> int:
    levels = 1 + max((size.levels for size in inner), default=0)
    if levels > _MAX_DEPTH:
        raise UnsafeSchemaError(f"its types have more than {_MAX_DEPTH} levels")
    return levels


def _marked(schema: Any) -> Any:
    """Return a schema whose numbers of floating point and logical types `_TEXTS` reads, which counts records, too."""
    if isinstance(schema, list):
        return [_marked(one) for one in schema]
    if isinstance(schema, dict):
        marked = {name: _marked(schema[name]) for name in ("type", "items", "values") if name in schema}
        logical = str(schema.get("logicalType"))
        if "fields" in schema:
            require_short([schema["name"], *(field["name"] for field in schema["fields"])])
            marked["fields"] = [{"name": field["name"], "type": _marked(field["type"])} for field in schema["fields"]]
            marked[_COST] = 2 + sum(len(field["name"]) + 4 for field in schema["fields"])
            logical = "record"
        elif "symbols" in schema:
            require_short(schema["symbols"])
            logical = "symbol" if any(len(symbol) > _LONG_SYMBOL for symbol in schema["symbols"]) else logical
        if f"{schema.get('type')}-{_MARK}{logical}" in _TEXTS and _applies(schema, logical):
            marked["logicalType"] = f"{_MARK}{logical}"
        # A name of ours in the schema itself would be believed.
        return {**{name: schema[name] for name in _KEPT if name in schema}, "logicalType": None, **marked}
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


_budget: Final = ContextVar[Budget]("budget")


def _record(value: Any, schema: Mapping[str, Any], *_schemas: Any) -> Any:
    _budget.get().spend(schema[_COST])
    return value


def _symbol(value: str, *_schemas: Any) -> str:
    _budget.get().spend(len(value))
    return value


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
    _budget.get().spend(scale)
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
    **{f"{type_}-{_MARK}record": _record for type_ in ("record", "error")},
    f"enum-{_MARK}symbol": _symbol,
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


def _read(schema: Any, named: Mapping[str, Any], payload: bytes, budget: Budget) -> bytes:
    stream = BytesIO(payload)
    _budget.set(budget)
    try:
        whole: Any = fastavro.schemaless_reader(stream, schema, None)
    except OverBudgetError:
        raise
    except Exception:
        # To find the wrong value of a long payload, piece by piece, would take too long.
        _budget.set(Budget(0, sys.maxsize))
        with suppress(OverBudgetError):
            _require_readable(named, BytesIO(payload), schema["fields"][0]["type"], "")
        raise
    if stream.tell() != len(payload):
        raise RefusedPayloadError(f"{len(payload) - stream.tell()} bytes follow the value; {BAD_BYTES}")
    # A copy, because orjson's results have a buffer of 1 KiB: to keep those of a block takes four times as long as to
    # make them.
    return b"%b" % orjson.dumps(whole["value"], default=_base64, option=orjson.OPT_UTC_Z)


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _require_readable(named: Mapping[str, Any], stream: BytesIO, schema: Any, path: str) -> None:
    """Read a value piece by piece; raise a `RefusedPayloadError` that names the first bad one by its path."""
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
    _budget.get().spend(1)
    try:
        return fastavro.schemaless_reader(stream, schema, None)
    except OverBudgetError:
        raise
    except _OddValueError as error:
        raise RefusedPayloadError.at(path, str(error), BAD_VALUE) from None
    except EOFError:
        clause = "is cut off: the bytes end before the value does"
    except UnicodeDecodeError:
        clause = "is a text that is not UTF-8"
    except Exception:  # noqa: BLE001 - a symbol that an enum does not have is one of several
        clause = "is not a value of its type"
    raise RefusedPayloadError.at(path, clause, BAD_BYTES)
