"""What becomes of each type of Protobuf at and past its limits, and how a rejection names the field."""

import re
import tracemalloc
from base64 import b64encode
from functools import cache
from typing import Any

import orjson
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from support.hostile_schemas import sized
from support.schema_registry import Registered, decode, framed
from workorders.core.items import Rejection
from workorders.kafka.formats import protobuf
from workorders.kafka.formats.decoded import Decoded
from workorders.kafka.formats.registry import RegistryDecoder

PROTO3 = """
syntax = "proto3"; package shop;
import "google/protobuf/any.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
enum Color { RED = 0; BLUE = 1; }
message Line { int64 count = 1; google.protobuf.Timestamp at = 2; string sku = 3; }
message Row {
  int32 i32 = 1; uint32 u32 = 2; sint32 s32 = 3; int64 i64 = 4; uint64 u64 = 5; fixed64 f64 = 6; bool b = 7;
  float f = 8; double d = 9; string t = 10; bytes raw = 11; Color color = 12; repeated int32 many = 13;
  google.protobuf.Timestamp at = 14; google.protobuf.Duration took = 15; google.protobuf.UInt64Value big = 16;
  google.protobuf.Value any_json = 17; google.protobuf.Any other = 18; repeated Line lines = 19;
  map<string, Line> by_name = 20; Row inner = 21;
}
"""
PROTO2 = """
syntax = "proto2"; package shop;
import "google/protobuf/any.proto";
enum Color { RED = 1; BLUE = 2; }
message Line { required string sku = 1; }
message Row {
  required string id = 1; repeated Line lines = 2; map<string, Line> by_name = 3; optional Color color = 4;
  optional group Extra = 5 { optional int32 n = 1; } optional google.protobuf.Any other = 6;
}
"""
_ANY = re.compile(r'import "google/protobuf/any.proto";|(optional )?google\.protobuf\.Any other = [0-9]+;')
ROW = b"\x02\x02"
"""The index of the second message."""


@cache
def compiled(source: str) -> tuple[RegistryDecoder, descriptor_pool.DescriptorPool]:
    files = list(protobuf._compiled({"schema.proto": source}))
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    registry = Registered(b64encode(files[-1].SerializeToString()).decode())
    return RegistryDecoder(registry, protobuf.parse, "value"), pool


def message(source: str, name: str = "Row", **fields: Any) -> Any:
    return message_factory.GetMessageClass(compiled(source)[1].FindMessageTypeByName(f"shop.{name}"))(**fields)


def decoded(payload: Any, source: str = PROTO3) -> dict[str, Any] | tuple[str, str]:
    """Return a message as JSON, or the code of its rejection with what follows the words that all have."""
    data = payload if isinstance(payload, bytes) else payload.SerializePartialToString()
    found = decode(compiled(source)[0], framed(7, ROW + data))
    if isinstance(found, Rejection):
        return found.code, found.detail.removeprefix("the value violates schema 7: ")
    assert isinstance(found, Decoded)
    value: dict[str, Any] = orjson.loads(found.json)
    return value


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"i32": -(2**31), "u32": 2**32 - 1, "s32": -(2**31)}, {"i32": -(2**31), "u32": 2**32 - 1, "s32": -(2**31)}),
        ({"i64": -(2**63), "u64": 2**64 - 1}, {"i64": str(-(2**63)), "u64": str(2**64 - 1)}),
        ({"f64": 2**64 - 1, "big": {"value": 2**64 - 1}}, {"f64": str(2**64 - 1), "big": str(2**64 - 1)}),
        ({"d": float("-inf"), "f": 0.1}, {"d": "-Infinity", "f": 0.1}),
        ({"t": "é\0", "raw": b"\xff\0", "color": 7}, {"t": "é\0", "raw": "/wA=", "color": 7}),
        ({"at": {"seconds": -62135596800}}, {"at": "0001-01-01T00:00:00Z"}),
        ({"at": {"seconds": 253402300799, "nanos": 999999999}}, {"at": "9999-12-31T23:59:59.999999999Z"}),
        ({"at": {"seconds": -1, "nanos": 1}}, {"at": "1969-12-31T23:59:59.000000001Z"}),
        ({"took": {"seconds": -315576000000, "nanos": -1}}, {"took": "-315576000000.000000001s"}),
        ({"any_json": {"number_value": 1e300}, "many": [-1, 2]}, {"any_json": 1e300, "many": [-1, 2]}),
    ],
    ids=str,
)
def test_a_value_at_the_limit_of_its_type_is_exact(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    found = decoded(message(PROTO3, **fields))
    assert isinstance(found, dict)
    assert found | expected == found


BAD_VALUE = "the sender must correct the value"
BAD_BYTES = "the sender must write by the schema whose id it sends"
MALFORMED = f"the value violates schema 7 (IndexError); {BAD_BYTES}"
INFINITY_SECONDS = 9223372036825200


@pytest.mark.parametrize(
    ("fields", "type_"),
    [
        ({"at": {"seconds": 253402300800}}, "Timestamp"),
        ({"at": {"seconds": INFINITY_SECONDS}}, "Timestamp"),
        ({"at": {"nanos": -1}}, "Timestamp"),
        ({"took": {"seconds": 1, "nanos": -1}}, "Duration"),
        ({"any_json": {"number_value": float("nan")}}, "Value"),
        ({"lines": [{}, {"at": {"nanos": 10**9}}]}, "Timestamp"),
        ({"by_name": {"ann": {"at": {"nanos": -1}}}}, "Timestamp"),
    ],
    ids=str,
)
def test_a_value_past_the_limit_of_its_type_is_rejected_with_its_type(fields: dict[str, Any], type_: str) -> None:
    expected = f"a {type_} is beyond its limits, or malformed; {BAD_VALUE}"
    assert decoded(message(PROTO3, **fields)) == ("undecodable", expected)


@pytest.mark.parametrize(
    ("source", "payload", "fault"),
    [
        (PROTO3, b"\x08\x85\x80\x80\x80\x10", f"the field i32 is a number of more than 32 bits; {BAD_BYTES}"),
        (PROTO3, b"\x10\x80\x80\x80\x80\x10", f"the field u32 is a number of more than 32 bits; {BAD_BYTES}"),
        (PROTO3, b"\x6a\x06\x01\x80\x80\x80\x80\x10", f"the field many is a number of more than 32 bits; {BAD_BYTES}"),
        (PROTO3, b"\x0d\1\0\0\0", f"the field i32 is of another type than in the schema; {BAD_BYTES}"),
        (PROTO3, b"\x52\x01\xff", f"the field t is a text that is not UTF-8; {BAD_VALUE}"),
        (PROTO3, b"\x9a\x01\x03\x1a\x01\xff", f"the field sku is a text that is not UTF-8; {BAD_VALUE}"),
        (PROTO3, b"\x9a\x01\x02\x12\x05", MALFORMED),
        (PROTO3, b"\xff", MALFORMED),
        (PROTO3, b"\x52\x05a", MALFORMED),
        (PROTO2, b"\x0a\x01a\x20\x05", f"the field color is a number that its enum does not have; {BAD_BYTES}"),
        (PROTO2, b"\x0a\x01\xff", f"the field id is a text that is not UTF-8; {BAD_VALUE}"),
    ],
    ids=str,
)
def test_bytes_that_would_be_left_out_or_cut_are_rejected_with_their_field(
    source: str, payload: bytes, fault: str
) -> None:
    # A message with an Any is always read field by field.
    for one in (source, _ANY.sub("", source)):
        assert decoded(payload, one) == ("undecodable", fault)


@pytest.mark.parametrize(
    "payload",
    [
        b"\x08\0",
        b"\x68\x01\x68\x02",
        b"\x08\x81\0",
        b"\x08\xff\xff\xff\xff\x0f",
        b"\xa2\x06\x01a",
        b"\xa2\x01\x05\x0a\x01b\x12\0\xa2\x01\x05\x0a\x01a\x12\0",
    ],
    ids=["a default", "not packed", "a long varint", "five bytes of -1", "a field of a later schema", "a map"],
)
def test_bytes_that_another_encoder_writes_are_read(payload: bytes) -> None:
    assert isinstance(decoded(payload), dict)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "id"),
        ({"id": "a", "lines": [{"sku": "x"}, {}]}, "sku"),
        ({"id": "a", "by_name": {"ann": {}}}, "sku"),
        ({"id": "a", "other": {"type_url": "type.googleapis.com/shop.Line"}}, "sku"),
    ],
    ids=str,
)
def test_a_message_without_a_required_field_is_rejected_with_the_field(fields: dict[str, Any], field: str) -> None:
    expected = ("schema-violated", f"the field {field} is required and missing; the sender must set it")
    assert decoded(message(PROTO2, **fields), PROTO2) == expected


def test_a_message_with_its_required_fields_and_a_group_is_read() -> None:
    whole = message(PROTO2, id="a", lines=[{"sku": "x"}], color=2, extra={"n": 1})
    expected = {"id": "a", "lines": [{"sku": "x"}], "by_name": {}, "color": "BLUE", "extra": {"n": 1}}
    assert decoded(whole, PROTO2) == expected


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("shop.Line", b"\x08\x05", {"count": "5", "sku": ""}),
        ("google.protobuf.Timestamp", b"\x08\x01", {"value": "1970-01-01T00:00:01Z"}),
        ("google.protobuf.FieldMask", b"\x0a\x03a_b", {"value": "aB"}),
    ],
)
def test_an_any_is_read_by_the_types_of_its_schema(type_: str, value: bytes, expected: dict[str, Any]) -> None:
    url = f"type.googleapis.com/{type_}"
    found = decoded(message(PROTO3, other={"type_url": url, "value": value}))
    assert isinstance(found, dict)
    assert found["other"] == {"@type": url, **expected}


def described(
    fields: int = 1, name: str = "f", symbol: str = "S", *, type_: int = 5, syntax: str = "proto3"
) -> RegistryDecoder:
    """Return the decoder of messages that repeat one with so many fields, and symbols."""
    file = descriptor_pb2.FileDescriptorProto(name="schema.proto", package="p", syntax=syntax)
    file.enum_type.add(name="E").value.add(name=symbol, number=0)
    row, wide = file.message_type.add(name="Row"), file.message_type.add(name="W")
    row.field.add(name="a", number=1, label=3, type=11, type_name=".p.W")
    row.field.add(name="e", number=2, label=3, type=14, type_name=".p.E")
    for number in range(1, fields + 1):
        wide.field.add(name=f"{name}{number}", number=number, label=1, type=type_)
    return RegistryDecoder(Registered(b64encode(file.SerializeToString()).decode()), protobuf.parse, "value")


@pytest.mark.parametrize(
    ("decoder", "payload", "code"),
    [
        (described(10_000), b"\x0a\0" * 300, "too-large"),
        (described(10_000), b"\x0a\0", "too-large"),
        (described(300), b"\x0a\0" * 30, None),
        (described(500, type_=9, syntax="proto2"), b"\x0a\0" * 500_000, "too-large"),
        (described(symbol="s" * 256), b"\x12\xd0\x86\x03" + b"\0" * 50_000, "too-large"),
        (described(symbol="s" * 257), b"", "unusable-schema"),
        (described(name="f" * 257), b"", "unusable-schema"),
    ],
    ids=["defaults", "few defaults", "usual", "left out", "symbols", "symbol", "name"],
)
def test_a_message_that_would_be_far_more_json_than_its_bytes_is_rejected_before_it_is_read(
    decoder: RegistryDecoder, payload: bytes, code: str | None
) -> None:
    found = decode(decoder, framed(7, b"\0" + payload))
    assert (found.code if isinstance(found, Rejection) else None) == code


def test_an_any_of_a_type_of_google_that_would_be_far_more_json_than_its_bytes_is_rejected() -> None:
    url = "type.googleapis.com/google.protobuf.DescriptorProto"
    types_in_a_type = b"\x1a\0" * 100_000
    found = decoded(message(PROTO3, other={"type_url": url, "value": types_in_a_type}))
    assert isinstance(found, tuple)
    assert found[0] == "too-large"


@pytest.mark.parametrize(
    ("kind", "levels", "is_read"),
    [("inner", 95, True), ("inner", 101, False), ("other", 5, True), ("other", 11, False)],
)
def test_a_message_in_many_others_is_not_copied_for_each_of_them(kind: str, levels: int, *, is_read: bool) -> None:
    payload = sized(b"\x52", b"a" * 2**20)
    for _ in range(levels):
        wrapped = sized(b"\x0a", b"type.googleapis.com/shop.Row") + sized(b"\x12", payload)
        payload = sized(b"\xaa\x01", payload) if kind == "inner" else sized(b"\x92\x01", wrapped)
    compiled(PROTO3)
    tracemalloc.start()
    found = decoded(payload)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 24 * 2**20
    assert is_read is isinstance(found, dict)
    assert is_read or "is in more than 100 messages; the sender must write" in str(found)


def test_the_memory_of_the_compiler_of_sources_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = RegistryDecoder(Registered(PROTO3), protobuf.parse, "value")
    monkeypatch.setattr(protobuf, "_COMPILE_BYTES", 16 * 1024 * 1024)
    found = decode(decoder, framed(7, ROW))
    assert isinstance(found, Rejection)
    assert found.detail == "schema 7 of the value cannot be used: it is malformed (CalledProcessError)"


def test_an_any_of_an_unknown_type_is_rejected() -> None:
    found = decoded(message(PROTO3, other={"type_url": "type.googleapis.com/shop.Other"}))
    assert found == (
        "undecodable",
        "an Any is of a type that neither the schema nor its imports have; the sender must register a schema that "
        "imports it",
    )
