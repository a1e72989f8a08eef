"""What becomes of each type of Avro, and which schemas are not read by."""

import datetime as dt
import json
import math
import time
import tracemalloc
import uuid
from decimal import Decimal
from typing import Any

import orjson
import pytest
from cachetools import TTLCache

from support.hostile_schemas import zigzag
from support.schema_registry import Registered, avro, decode, framed
from workorders.core.items import Rejection
from workorders.kafka.formats import registry
from workorders.kafka.formats.avro import parse
from workorders.kafka.formats.decoded import Decoded
from workorders.kafka.formats.registry import RegistryDecoder

TIME = dt.datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=dt.UTC)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


def decoder(schema: Any, references: dict[str, Any] | None = None) -> RegistryDecoder:
    named: dict[str, tuple[Any, list[str]]] = {name: (referred, []) for name, referred in (references or {}).items()}
    return RegistryDecoder(Registered(schema, named), parse, "value")


def asked(one: RegistryDecoder) -> int:
    """Return the number of requests to the registry of a decoder."""
    asked_registry = one._registry
    assert isinstance(asked_registry, Registered)
    return asked_registry.asked


def field(type_: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [{"name": "a", "type": type_}]}


def decoded(type_: Any, value: Any) -> Any:
    schema = field(type_)
    found = decode(decoder(schema), avro(7, schema, {"a": value}))
    assert isinstance(found, Decoded)
    assert found.schema == b'{"id":7}'
    return orjson.loads(found.json)["a"]


def logical(type_: str, logical_type: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "logicalType": logical_type, **more}


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("null", None, None),
        ("boolean", True, True),
        ("int", -1, -1),
        ("long", 2**63 - 1, 2**63 - 1),
        ("double", 1.5, 1.5),
        ("double", math.nan, "NaN"),
        ("float", math.inf, "Infinity"),
        (["null", "double"], -math.inf, "-Infinity"),
        ({"type": "array", "items": "double"}, [1.0, math.nan], [1.0, "NaN"]),
        ("string", "é\0", "é\0"),
        ("bytes", b"\xff\0", "/wA="),
        ({"type": "fixed", "name": "Two", "size": 2}, b"ab", "YWI="),
        ({"type": "enum", "name": "E", "symbols": ["X", "Y"]}, "Y", "Y"),
        ({"type": "map", "values": "int"}, {"k": 1}, {"k": 1}),
        (["null", "string"], None, None),
        (["null", "string"], "text", "text"),
        (logical("bytes", "decimal", precision=10, scale=2), Decimal("-12.30"), "-12.30"),
        (logical("string", "uuid"), ID, str(ID)),
        (logical("int", "date"), dt.date(2026, 3, 1), "2026-03-01"),
        (logical("int", "time-millis"), dt.time(12, 0, 0, 5000), "12:00:00.005000"),
        (logical("long", "time-micros"), dt.time(12, 0, 0, 5), "12:00:00.000005"),
        (logical("long", "timestamp-millis"), TIME.replace(microsecond=123000), "2026-03-01T12:00:00.123000Z"),
        (logical("long", "timestamp-micros"), TIME, "2026-03-01T12:00:00.123456Z"),
        (logical("long", "local-timestamp-millis"), dt.datetime(2026, 3, 1, 12), "2026-03-01T12:00:00"),
    ],
    ids=str,
)
def test_each_type_has_one_form_in_json(type_: Any, value: Any, expected: Any) -> None:
    assert decoded(type_, value) == expected


@pytest.mark.parametrize("name", ["Line", "shop.Line"])
def test_a_schema_may_refer_to_others_and_is_parsed_once(name: str) -> None:
    line = {"type": "record", "name": name, "fields": [{"name": "sku", "type": "string"}]}
    schema = field({"type": "array", "items": name})
    one = decoder(schema, {name: line})
    whole = field({"type": "array", "items": line})
    message = avro(7, whole, {"a": [{"sku": "x"}]})
    for _ in range(3):
        found = decode(one, message)
        assert isinstance(found, Decoded)
        assert found.json == b'{"a":[{"sku":"x"}]}'
    assert asked(one) == 2


@pytest.mark.parametrize(
    ("schema", "is_usable"),
    [({**field("long"), "doc": "a" * 10_000}, True), (field("long"), True), ({"type": "nonsense"}, False)],
    ids=["long", "short", "unusable"],
)
def test_only_some_characters_of_schemas_are_kept(
    monkeypatch: pytest.MonkeyPatch, schema: Any, *, is_usable: bool
) -> None:
    monkeypatch.setattr(registry, "_MAX_KEPT_CHARACTERS", 3 * max(4096, len(json.dumps(schema))))
    one = decoder(schema)
    for schema_id, requests in ((1, 1), (2, 2), (3, 3), (1, 3), (4, 4), (3, 4), (1, 5)):
        assert isinstance(decode(one, framed(schema_id, b"\0")), Decoded) is is_usable
        assert asked(one) == requests


NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}


def nested(depth: int) -> Any:
    """Return a type whose values double at each level, and take no bytes."""
    inner: Any = "null"
    for level in range(depth):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"L{level - 1}" if level else "null"}]
        inner = {"type": "record", "name": f"L{level}", "fields": fields}
    return inner


def chain(length: int, name: str = "x") -> Any:
    """Return a type of so many levels."""
    inner: Any = "long"
    for level in range(length):
        inner = {"type": "record", "name": f"C{level}", "fields": [{"name": name, "type": inner}]}
    return inner


@pytest.mark.parametrize(
    ("schema", "clause"),
    [
        (NODE, "the type Node contains itself"),
        (field({"type": "array", "items": "null"}), "the items of an array take no bytes"),
        (field({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}), "take no bytes"),
        (chain(250), "its types have more than 200 levels"),
        (field({"type": "array", "items": {**field("null"), "name": "n" * 257}}), "a name of more than 256"),
        ({"type": "nonsense"}, "it is malformed (UnknownType)"),
        (field(logical("bytes", "decimal", precision=9999, scale=1001)), "a decimal has a scale that is not from 0 to"),
    ],
    ids=["recursive", "nulls", "empty fixed", "levels", "name", "unknown type", "scale"],
)
def test_a_schema_by_which_few_bytes_exhaust_the_process_is_not_used(schema: Any, clause: str) -> None:
    found = decode(decoder(schema), framed(7, b"\x02" * 5000))
    assert isinstance(found, Rejection)
    assert found.code == "unusable-schema"
    assert clause in found.detail


def test_an_empty_union_has_no_value() -> None:
    found = decode(decoder([]), framed(7, b"\x02"))
    assert isinstance(found, Rejection)
    assert found.code == "undecodable"


WIDE = {"type": "record", "name": "I", "fields": [{"name": "w", "type": nested(12)}, {"name": "b", "type": "boolean"}]}


@pytest.mark.parametrize(
    ("type_", "payload"),
    [
        (nested(17), b""),
        ({"type": "array", "items": WIDE}, b"\x80\x02" + b"\1" * 128 + b"\0"),
        ({"type": "map", "values": WIDE}, b"\x80\x02" + b"\0\1" * 128 + b"\0"),
        (
            {"type": "array", "items": logical("bytes", "decimal", precision=1000, scale=1000)},
            b"\x80\xfa\x01" + b"\x02\1" * 16_000 + b"\0",
        ),
        (
            {"type": "array", "items": {"type": "enum", "name": "E", "symbols": ["s" * 256]}},
            b"\xa0\x8d\x06" + b"\0" * 50_000 + b"\0",
        ),
    ],
    ids=["doubling", "array", "map", "decimals", "symbols"],
)
def test_a_message_that_would_be_far_more_json_than_its_bytes_is_rejected_while_it_is_read(
    type_: Any, payload: bytes
) -> None:
    one = decoder(field(type_))
    decode(one, framed(7, b""))
    tracemalloc.start()
    found = decode(one, framed(7, payload))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 1024 * 1024
    assert isinstance(found, Rejection)
    assert found.code == "too-large"
    assert found.detail.startswith("the value violates schema 7: as JSON, it has more than ")


def test_a_parsed_schema_that_a_schema_contains_is_not_believed() -> None:
    wide = {**field("boolean"), "workorders-cost": -(10**9)}
    parsed = {**field("long"), "name": "P", "__fastavro_parsed": True, "__named_schemas": {"Wide": wide}}
    found = decode(decoder(field({"type": "array", "items": "Wide"}), {"P": parsed}), framed(7, b"\0"))
    assert isinstance(found, Rejection)
    assert found.detail == "schema 7 of the value cannot be used: it is malformed (UnknownType)"


def test_a_reader_of_ours_that_a_schema_names_is_not_believed() -> None:
    type_ = logical("bytes", "workorders-decimal", precision=9, scale=50_000_000)
    assert decode(decoder(field(type_)), framed(7, b"\x02\1")) == Decoded(b'{"a":"AQ=="}', b'{"id":7}')


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time, and forget the ids of other tests."""
    now = [time.monotonic() + 1000]
    monkeypatch.setattr(registry, "unknown_ids", TTLCache(registry.MAX_UNKNOWN, ttl=60, timer=lambda: now[0]))
    return now


def test_ids_that_senders_invent_are_few_requests_in_a_minute(clock: list[float]) -> None:
    one, other = decoder(None), decoder(None)
    for attempt in range(1, 3):
        for schema_id in range(1, 1000):
            found = decode(one, framed(schema_id, b""))
            assert isinstance(found, Rejection)
            assert found.code == "unknown-schema"
        assert isinstance(found, Rejection)
        assert found.detail.startswith("the registry did not have 20 other schemas within a minute and was not asked")
        decode(other, framed(7, b""))
        assert (asked(one), asked(other)) == (20 * attempt, 0)
        clock[0] += 61


def test_an_id_that_a_registry_does_not_know_is_asked_for_again_after_a_minute(clock: list[float]) -> None:
    one = decoder(None)
    for seconds, requests in ((0, 1), (59, 1), (2, 2)):
        clock[0] += seconds
        found = decode(one, framed(7, b""))
        assert found == Rejection("unknown-schema", "the registry does not have schema 7 of the value")
        assert asked(one) == requests


def sized(value: bytes) -> bytes:
    return zigzag(len(value)) + value


DECIMAL = logical("bytes", "decimal", precision=4, scale=2)
INFINITY = 9223372036825200000
"""What Debezium sends as milliseconds or microseconds for `infinity` in Postgres."""


@pytest.mark.parametrize(
    ("type_", "payload", "expected"),
    [
        (DECIMAL, sized((1234567890123).to_bytes(8)), "12345678901.23"),
        (DECIMAL, sized((-1234567890123).to_bytes(8, signed=True)), "-12345678901.23"),
        (DECIMAL, sized(b"\xfb"), "-0.05"),
        (DECIMAL, sized(b"\0"), "0.00"),
        (logical("bytes", "decimal", precision=4), sized(b"\xfb"), "-5"),
        (logical("fixed", "decimal", name="F", size=2, precision=3, scale=3), b"\x80\0", "-32.768"),
        (logical("int", "date"), zigzag(2932896), "9999-12-31"),
        (logical("int", "date"), zigzag(2932897), "+10000-01-01"),
        (logical("int", "date"), zigzag(-719528), "0000-01-01"),
        (logical("int", "date"), zigzag(-719529), "-0001-12-31"),
        (logical("int", "date"), zigzag(-(2**31)), "-5877641-06-23"),
        (logical("int", "time-millis"), zigzag(86_399_999), "23:59:59.999000"),
        (logical("long", "timestamp-millis"), zigzag(-1), "1969-12-31T23:59:59.999000Z"),
        (logical("long", "timestamp-millis"), zigzag(253402300800000), "+10000-01-01T00:00:00Z"),
        (logical("long", "timestamp-millis"), zigzag(INFINITY), "+292278994-08-16T23:00:00Z"),
        (logical("long", "timestamp-micros"), zigzag(INFINITY), "+294247-01-10T04:00:25.200000Z"),
        (logical("long", "timestamp-micros"), zigzag(-(2**63)), "-290308-12-21T19:59:05.224192Z"),
        (logical("long", "local-timestamp-micros"), zigzag(-1), "1969-12-31T23:59:59.999999"),
        (logical("long", "local-timestamp-millis"), zigzag(253402300800000), "+10000-01-01T00:00:00"),
        (logical("long", "timestamp-nanos"), zigzag(2**63 - 1), "2262-04-11T23:47:16.854775807Z"),
        (logical("string", "uuid"), sized(str(ID).upper().encode()), str(ID).upper()),
        (logical("fixed", "uuid", name="U", size=16), ID.bytes, str(ID)),
        (logical("fixed", "duration", name="D", size=12), b"\xff" * 12, "/" * 16),
        ("long", zigzag(-(2**63)), -(2**63)),
        ("double", b"\0\0\0\0\0\0\0\x80", -0.0),
    ],
    ids=str,
)
def test_a_value_at_and_past_the_limits_of_its_type_is_exact(type_: Any, payload: bytes, expected: Any) -> None:
    found = decode(decoder(field(type_)), framed(7, payload))
    assert isinstance(found, Decoded)
    assert repr(orjson.loads(found.json)["a"]) == repr(expected)


LINES: dict[str, Any] = {
    "type": "array", "items": {"type": "record", "name": "L", "fields": [{"name": "sku", "type": ["null", DECIMAL]}]}
}  # fmt: skip
BAD_VALUE = "the sender must correct the value"
BAD_BYTES = "the sender must write by the schema whose id it sends"


@pytest.mark.parametrize(
    ("type_", "payload", "fault"),
    [
        (DECIMAL, sized(b""), f"/a is a decimal that does not have 1 to 1000 bytes; {BAD_VALUE}"),
        (logical("int", "time-millis"), zigzag(-1), f"/a is a time of day before 00:00 or after 23:59:59; {BAD_VALUE}"),
        (logical("long", "time-micros"), zigzag(86_400_000_000), "/a is a time of day before 00:00 or after 23:59:59;"),
        (logical("string", "uuid"), sized(b"{%b}" % str(ID).encode()), "/a is not a UUID of 32 hexadecimal digits and"),
        ("string", b"\x04\xff\xff", f"/a is a text that is not UTF-8; {BAD_BYTES}"),
        ("string", b"\x05a", f"/a is cut off: the bytes end before the value does; {BAD_BYTES}"),
        ("string", b"", "/a is cut off"),
        (["null", "string"], b"\x08", f"/a is of a type that its union does not have; {BAD_BYTES}"),
        ({"type": "enum", "name": "E", "symbols": ["X"]}, b"\x04", f"/a is not a value of its type; {BAD_BYTES}"),
        (LINES, b"\x04\x02\x02\1\x02\0\0", f"/a/1/sku is a decimal that does not have 1 to 1000 bytes; {BAD_VALUE}"),
        (LINES, b"\x01\x06\x02\x02\1\x02\x02\0\0", "/a/1/sku is a decimal that does not have 1 to 1000 bytes;"),
        ({"type": "map", "values": "string"}, b"\x02\x06Ann\x05a", "/a/* is cut off"),
    ],
    ids=str,
)
def test_a_value_without_an_exact_text_is_rejected_with_its_path_and_no_data(
    type_: Any, payload: bytes, fault: str
) -> None:
    found = decode(decoder(field(type_)), framed(7, payload))
    assert isinstance(found, Rejection)
    assert found.code == "undecodable"
    assert found.detail.startswith(f"the value violates schema 7: {fault}")


def test_a_long_path_is_shown_by_its_end() -> None:
    found = decode(decoder(chain(150, "x" * 256)), framed(7, b""))
    assert isinstance(found, Rejection)
    path = f"/{'x' * 256}"[-200:]
    assert found.detail == (
        f"the value violates schema 7: ...{path} is cut off: the bytes end before the value does; {BAD_BYTES}"
    )


def test_the_wrong_value_of_a_long_message_is_not_looked_for() -> None:
    schema = field({"type": "array", "items": "string"})
    found = decode(decoder(schema), framed(7, zigzag(70_000) + b"\x02a" * 70_000 + b"\x02\x05"))
    assert found == Rejection("undecodable", f"the value violates schema 7 (EOFError); {BAD_BYTES}")


@pytest.mark.parametrize(
    ("payload", "form"),
    [
        (b"", None),
        (b"\0\0\0\0", None),
        (b"\1" + b"\0" * 20, "in a frame of a schema registry with an id of 16 bytes"),
        (b"\0" * 8 + b"\7\2a", "in a frame of Apicurio Registry with an id of eight bytes"),
        (b' {"a":1}', "JSON: set format: json in the trigger"),
        (b"\x1f\x8b\x08", "compressed by gzip"),
    ],
    ids=str,
)
def test_what_has_no_schema_id_is_rejected_without_asking_the_registry(payload: bytes, form: str | None) -> None:
    one = decoder(field("string"))
    found = decode(one, payload)
    assert isinstance(found, Rejection)
    assert found.code == "no-schema-id"
    lacking = "the value does not begin with a zero byte and the four bytes of a schema's id"
    assert found.detail.startswith(lacking if form is None else f"{lacking}; it is {form}")
    assert asked(one) == 0
