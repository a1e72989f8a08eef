"""What becomes of each type of Avro, and which schemas are not read by."""

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import orjson
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference

from support.schema_registry import avro, framed
from workorders.core.items import Rejection
from workorders.kafka.formats.avro import parse
from workorders.kafka.formats.decoders import RegistryDecoder
from workorders.kafka.formats.payloads import Decoded

TIME = dt.datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=dt.UTC)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


class Registered:
    """Schemas by id, without a network; the integration tests have a real registry."""

    def __init__(self, schema: Any, references: dict[str, Any] | None = None) -> None:
        names = [SchemaReference(name, name, 1) for name in references or {}]
        self._schema = Schema(orjson.dumps(schema).decode(), "AVRO", names)
        self._references = references or {}
        self.asked = 0

    def schema(self, _schema_id: int) -> Schema:
        self.asked += 1
        return self._schema

    def reference(self, subject: str, _version: int) -> Schema:
        return Schema(orjson.dumps(self._references[subject]).decode(), "AVRO", [])

    def registration(self, schema_id: int, subject: str) -> bytes:
        return orjson.dumps({"id": schema_id, "subject": subject, "version": 1})


def decoder(schema: Any, references: dict[str, Any] | None = None) -> RegistryDecoder:
    return RegistryDecoder(Registered(schema, references), parse, "value")  # type: ignore[arg-type]


def field(type_: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Row", "fields": [{"name": "a", "type": type_}]}


def decoded(type_: Any, value: Any) -> Any:
    schema = field(type_)
    found = decoder(schema).decode("orders", avro(7, schema, {"a": value}))
    assert isinstance(found, Decoded)
    assert found.schema == b'{"id":7,"subject":"orders-value","version":1}'
    return orjson.loads(found.json)["a"]


def logical(type_: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "logicalType": name, **more}


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


def test_a_schema_may_refer_to_others_and_is_parsed_once() -> None:
    line = {"type": "record", "name": "shop.Line", "fields": [{"name": "sku", "type": "string"}]}
    schema = field({"type": "array", "items": "shop.Line"})
    one = decoder(schema, {"shop.Line": line})
    whole = field({"type": "array", "items": line})
    message = avro(7, whole, {"a": [{"sku": "x"}]})
    for _ in range(3):
        found = one.decode("orders", message)
        assert isinstance(found, Decoded)
        assert found.json == b'{"a":[{"sku":"x"}]}'
    assert one._registry.asked == 1  # type: ignore[attr-defined]


NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}


def nested(depth: int) -> Any:
    """Return a type whose values double at each level, and take no bytes."""
    inner: Any = "null"
    for level in range(depth):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"L{level - 1}" if level else "null"}]
        inner = {"type": "record", "name": f"L{level}", "fields": fields}
    return inner


@pytest.mark.parametrize(
    ("schema", "clause"),
    [
        (NODE, "the type Node contains itself"),
        (field({"type": "array", "items": "null"}), "the items of an array take no bytes"),
        (field({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}), "take no bytes"),
        (nested(40), "has more than 100000 fields"),
        ({"type": "nonsense"}, "it is no Avro schema (UnknownType)"),
        ([], "the value is"),
    ],
    ids=["recursive", "nulls", "empty fixed", "doubling", "unknown type", "empty union"],
)
def test_a_schema_by_which_few_bytes_exhaust_the_process_is_not_used(schema: Any, clause: str) -> None:
    found = decoder(schema).decode("orders", framed(7, b"\x02" * 5000))
    assert isinstance(found, Rejection)
    assert found.code in {"unusable-schema", "undecodable"}
    assert clause in found.detail or found.code == "undecodable"


@pytest.mark.parametrize(
    ("type_", "payload"),
    [
        ("string", b"\x04\xff\xff"),
        ("string", b"\x05a"),
        ("string", b""),
        (logical("long", "timestamp-millis"), b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        (["null", "string"], b"\x08"),
        (logical("int", "date"), b"\x80\x80\x80\x80\x08"),
    ],
    ids=str,
)
def test_malformed_bytes_are_a_rejection_that_quotes_no_data(type_: Any, payload: bytes) -> None:
    found = decoder(field(type_)).decode("orders", framed(7, payload))
    assert isinstance(found, Rejection)
    assert found.code == "undecodable"
    assert found.detail.startswith("the value is not what schema 7 describes (")


@pytest.mark.parametrize("payload", [b"", b"\0\0\0\0", b'{"a":1}', b"\1" + b"\0" * 20])
def test_what_has_no_schema_id_is_rejected_without_asking_the_registry(payload: bytes) -> None:
    one = decoder(field("string"))
    found = one.decode("orders", payload)
    assert isinstance(found, Rejection)
    assert found.code == "no-schema-id"
    assert one._registry.asked == 0  # type: ignore[attr-defined]
