"""Draws schemas and messages by them of which a few bytes mean much: repeats, levels, defaults, numbers, references."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from google.protobuf import descriptor_pb2
from hypothesis import strategies as st

from support import hostile

MAX_BYTES: Final = 64 * 1024
_REPEATS: Final = st.sampled_from([1, 250, 20_000])
_NAMES: Final = st.sampled_from(["n", "name", "n" * 200, "n" * 100_000])
_CONTAINERS: Final = ("array", "map", "record", "union")
_REPEATING: Final = ("array", "map")
_LEAVES: Final = ("leaf", "nulls", "nulls", "decimal", "decimal", "enum", "chain")


class Case(NamedTuple):
    """A message, and the schema that its format has for it."""

    format: str
    payload: bytes
    schema: str | None = None
    references: Mapping[str, tuple[Any, Sequence[str]]] = {}
    headers: Sequence[tuple[str | bytes, bytes | None]] = ()
    times: int = 1
    """How often the message is sent."""


def zigzag(number: int) -> bytes:
    """Return a number as Avro has it."""
    rest, found = (number << 1) ^ (number >> 63), b""
    while rest > 127:
        found += bytes([rest & 127 | 128])
        rest >>= 7
    return found + bytes([rest])


def varint(number: int) -> bytes:
    """Return a number as Protobuf has it."""
    return zigzag(number // 2 if number % 2 == 0 else -(number + 1) // 2)


def repeated(payload: bytes, times: int) -> tuple[bytes, int]:
    """Return a payload so many times, or fewer, if all would be too long; and how many times."""
    times = min(times, MAX_BYTES // max(len(payload), 1)) if payload else times
    return payload * times, times


def damaged(payloads: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Draw payloads, a few of them wrong."""
    return payloads | st.builds(lambda payload, cut: payload[:-cut], payloads, st.integers(1, 3))


def many_nulls(levels: int, width: int, prefix: str) -> Any:
    """Return a type of Avro of so many values, each of no bytes, to the power of its levels."""
    inner: Any = "null"
    for level in range(levels):
        name = inner if level == 0 else inner["name"]
        fields = [{"name": f"f{place}", "type": name if place else inner} for place in range(width)]
        inner = {"type": "record", "name": f"{prefix}{level}", "fields": fields}
    return inner


@st.composite
def avro(draw: st.DrawFn) -> Case:
    """Draw an Avro schema and a value of it."""
    names = iter(range(1000))
    levels = draw(st.sampled_from([1, 1, 3]))

    def one(level: int) -> tuple[Any, bytes]:  # noqa: PLR0911 - one per kind of type
        # Repeats of what is large make it hurt.
        kinds = {0: _LEAVES, levels: _REPEATING if levels == 1 else _CONTAINERS}.get(level, (*_LEAVES, *_CONTAINERS))
        kind = draw(st.sampled_from(kinds))
        number = next(names)
        match kind:
            case "nulls":
                wide = [many_nulls(draw(st.sampled_from([1, 5, 6])), 10, f"N{number}x"), "boolean"]
                shapes = [{"name": f"w{place}", "type": shape} for place, shape in enumerate(wide)]
                return {"type": "record", "name": f"W{number}", "fields": shapes}, b"\1"
            case "decimal":
                scale = draw(st.sampled_from([1000, *[50_000_000] * 3]))
                mark = draw(st.sampled_from(["decimal", "decimal", "workorders-decimal"]))
                return {"type": "bytes", "logicalType": mark, "precision": scale, "scale": scale}, b"\x02\x01"
            case "enum":
                return {"type": "enum", "name": f"E{number}", "symbols": [draw(_NAMES)]}, b"\0"
            case "array" | "map":
                inner, payload = one(level - 1)
                item = payload if kind == "array" else b"\x02k" + payload
                items, times = repeated(item, draw(_REPEATS))
                shape = {"type": "array", "items": inner} if kind == "array" else {"type": "map", "values": inner}
                return shape, zigzag(times) + items + b"\0"
            case "record":
                fields = [one(level - 1) for _ in range(draw(st.integers(1, 3)))]
                prefix = draw(_NAMES)
                shapes = [{"name": f"{prefix}{place}", "type": shape} for place, (shape, _) in enumerate(fields)]
                return {"type": "record", "name": f"R{number}", "fields": shapes}, b"".join(part for _, part in fields)
            case "union":
                inner, payload = one(level - 1)
                return ["null", inner], b"\x02" + payload
            case "chain":
                length = draw(st.sampled_from([3, 300]))
                inner = "long"
                for place in range(length):
                    inner = {"type": "record", "name": f"C{number}x{place}", "fields": [{"name": "x", "type": inner}]}
                return inner, b"\0"
        leaves: list[tuple[Any, bytes]] = [
            ("null", b""),
            ("boolean", b"\1"),
            ("double", b"\0" * 6 + b"\xf8\x7f"),
            ("string", b"\x06\xed\xa0\x80"),
            ("string", b"\xfe\xff\xff\xff\x0f"),
            ({"type": "int", "logicalType": "date"}, zigzag(-(2**31))),
            ({"type": "fixed", "name": f"F{number}", "size": 0}, b""),
            ({"type": "fixed", "name": f"F{number}", "size": -1}, b""),
            ({"type": "record", "name": f"S{number}", "fields": [{"name": "s", "type": f"S{number}"}]}, b""),
        ]
        leaf: tuple[Any, bytes] = draw(st.sampled_from(leaves))
        return leaf

    schema, payload = one(levels)
    wrapped = {"type": "record", "name": "Top", "fields": [{"name": "a", "type": schema}]}
    return Case("avro", draw(damaged(st.just(payload))), json.dumps(wrapped))


@st.composite
def protobuf(draw: st.DrawFn) -> Case:
    """Draw a descriptor of a message with many, long, or nested fields, and a message that repeats them."""
    file = descriptor_pb2.FileDescriptorProto(
        name="schema.proto", package="p", syntax=draw(st.sampled_from(["proto2", "proto3"]))
    )
    top, wide = file.message_type.add(name="T"), file.message_type.add(name="W")
    color = file.enum_type.add(name="E")
    color.value.add(name=draw(_NAMES), number=0)
    top.field.add(name="a", number=1, label=3, type=11, type_name=".p.W")
    top.field.add(name="e", number=2, label=3, type=14, type_name=".p.E")
    top.field.add(name="t", number=3, label=1, type=11, type_name=".p.T")
    prefix, label = draw(st.sampled_from(["f", "f" * 200])), draw(st.sampled_from([1, 3]))
    type_ = draw(st.sampled_from([1, 5, 9, 14]))
    for number in range(draw(st.sampled_from([1, 300, 10_000]))):
        at = number + 1 if number < 18_000 else number + 2_000
        wide.field.add(
            name=f"{prefix}{number}",
            number=at,
            label=label,
            type=type_,
            type_name=".p.E" if type_ == 14 else None,
        )
    parts = {
        "wide": lambda: repeated(b"\x0a\0", draw(_REPEATS))[0],
        "enums": lambda: sized(b"\x12", repeated(b"\0", draw(_REPEATS))[0]),
        "levels": lambda: _nested(draw(st.sampled_from([50, 99, 101, 2000]))),
        "bytes": lambda: draw(st.binary(max_size=20)),
    }
    payload = b"".join(parts[kind]() for kind in ["wide", *draw(st.lists(st.sampled_from(sorted(parts)), max_size=2))])
    return Case("protobuf", b"\0" + payload, b64encode(file.SerializeToString()).decode())


def sized(tag: bytes, content: bytes) -> bytes:
    """Return a field of Protobuf."""
    return tag + varint(len(content)) + content


def _nested(levels: int) -> bytes:
    found = b""
    for _ in range(levels):
        found = sized(b"\x1a", found)
    return found


_KEYWORDS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "string"},
    {"required": ["id"]},
    {"const": [2]},
    {"enum": [1, {"b": 1}, *range(1000)]},
    {"uniqueItems": True},
    {"maximum": 5, "multipleOf": 0.01},
    {"multipleOf": 1e-300},
    {"minLength": 3, "pattern": r"^(a+)+$"},
    {"items": {"anyOf": [{"pattern": r"^(a|a?)+\1$"}, True]}},
    {"pattern": "(a{30}){900}"},
    {"unevaluatedProperties": False},
    {"not": {}},
    {"$ref": "https://example.com/schema"},
    {"$dynamicRef": "#n", "$dynamicAnchor": "n"},
)


def layers(count: int, width: int) -> Any:
    """Return a schema of which each layer refers to the next one so many times."""
    below = {f"a{place}": {"allOf": [{"$ref": f"#/$defs/a{place + 1}"}] * width} for place in range(count)}
    return {"$defs": {**below, f"a{count}": {}}, "$ref": "#/$defs/a0"}


def branching(width: int, steps: int) -> Any:
    """Return a schema that looks at each part of a value so many times as at the value, after so many steps."""
    part: Any = {"properties": {"a": {"$ref": "#"}}, "items": {"$ref": "#"}}
    for _ in range(steps):
        part = {"allOf": [part]}
    return {"allOf": [part] * width}


schemas: Final = st.one_of(
    st.lists(st.sampled_from(_KEYWORDS), min_size=1, max_size=3).map(lambda parts: {"allOf": parts}),
    st.sampled_from(_KEYWORDS),
    st.sampled_from(_KEYWORDS).map(lambda keyword: {"properties": {"a": keyword}, "items": keyword}),
    st.builds(layers, st.sampled_from([3, 40, 3_000]), st.integers(1, 3)),
    st.builds(branching, st.integers(1, 3), st.sampled_from([0, 30, 200])),
    st.just({"patternProperties": {f"{place}(a{{30}}){{700}}": {} for place in range(100)}}),
)
_deep: Final = st.builds(
    lambda levels, opening, closing, inner: '{"a":' + opening * levels + inner + closing * levels + "}",
    st.sampled_from([20, 40, 300, 1000]),
    *(st.just(bracket) for bracket in "[]"),
    st.just("1"),
)
_many: Final = st.builds(
    lambda one, times: '{"a":[' + ",".join(one.replace("#", str(place)) for place in range(times)) + "]}",
    st.sampled_from(
        ['"aaaaaaaaaaaa!"', "1000000000000000000000#", "0.1234567890123456#", "1.00000000000000000e-#", "[#]"]
    ),
    st.sampled_from([1, 100, 2_500]),
)
texts: Final = (_deep | _many | hostile.texts).map(lambda text: text.encode("utf-8", "surrogatepass")[:MAX_BYTES])
json_values: Final = st.builds(
    lambda schema, text, format_: Case(format_, text, json.dumps(schema)),
    schemas,
    texts,
    st.sampled_from(["json", "json_schema"]),
)
references: Final = st.builds(
    lambda format_, count, width, text: Case(
        format_,
        b"1",
        text,
        {
            f"s{layer}x{place}": (text, [f"s{layer - 1}x{below}" for below in range(width)] if layer else [])
            for layer in range(count)
            for place in range(width)
        },
    ),
    st.sampled_from(["avro", "protobuf", "json_schema"]),
    st.sampled_from([3, 20, 300]),
    st.integers(1, 2),
    st.sampled_from(['"string"', "true", ""]),
)
cloudevents: Final = st.builds(
    lambda payload, headers: Case("cloudevents", payload, None, {}, headers),
    texts,
    st.lists(
        st.tuples(
            st.sampled_from(["ce_id", "ce_source", "ce_type", "ce_specversion", "ce_x", "ce_\ud800", "content-type"]),
            st.sampled_from(
                [b"1", b"\xff", b"\xed\xa0\x80", b"\0" * 20_000, b"text/plain", b"application/cloudevents+json"]
            ),
        ),
        max_size=8,
    ),
)
MANY_MESSAGES: Final = 50
_LONG: Final = 20_000
"""Types, fields, or values of a schema of a megabyte."""


def _records(count: int) -> list[Any]:
    fields = [{"name": "a", "type": "long"}]
    return [{"type": "record", "name": f"R{place}", "fields": fields} for place in range(count)]


def _descriptor(fill: str) -> str:
    file = descriptor_pb2.FileDescriptorProto(name="schema.proto", package="p", syntax="proto2")
    row = file.message_type.add(name="Row")
    row.extension_range.add(start=1, end=2**29)
    for place in range(2 * _LONG):
        match fill:
            case "messages":
                file.message_type.add(name=f"M{place}")
            case "extensions":
                file.extension.add(name=f"x{place}", number=20_000 + place, label=1, type=9, extendee=".p.Row")
            case "symbols":
                color = file.enum_type[0] if file.enum_type else file.enum_type.add(name="E")
                color.value.add(name=f"V{place}", number=place)
    return b64encode(file.SerializeToString()).decode()


_LONG_JSON: Final[Mapping[str, Any]] = {
    "pattern": {"pattern": "a" * 2**20},
    "alternatives": {"pattern": "|".join(f"a{place}" for place in range(6 * _LONG))},
    "combined": {"allOf": [{}] * 9 * _LONG},
    "referred": {
        "$defs": {f"d{place}": {"minimum": 1} for place in range(_LONG)},
        "allOf": [{"$ref": f"#/$defs/d{place}"} for place in range(_LONG)],
    },
    "required": {"required": [f"r{place}" for place in range(4 * _LONG)]},
}
LONG: Final = {
    **{
        f"avro {name}": Case("avro", payload, json.dumps(schema), times=MANY_MESSAGES)
        for name, payload, schema in (
            ("union", b"\0\0", _records(_LONG)),
            ("array", b"\0", {"type": "array", "items": ["null", *_records(_LONG)]}),
            ("symbols", b"\0", {"type": "enum", "name": "E", "symbols": [f"s{place}" for place in range(5 * _LONG)]}),
        )
    },
    **{
        f"protobuf {fill}": Case("protobuf", b"\0", _descriptor(fill), times=MANY_MESSAGES)
        for fill in ("messages", "extensions", "symbols")
    },
    **{
        f"json {name}": Case("json_schema", b"{}", json.dumps(schema), times=MANY_MESSAGES)
        for name, schema in _LONG_JSON.items()
    },
}
"""Schemas of a megabyte: what of them is done again for each message is seen by many messages."""
cases: Final = st.one_of(avro(), protobuf(), json_values, references, cloudevents)
