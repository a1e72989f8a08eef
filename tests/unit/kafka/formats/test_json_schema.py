"""JSON that a JSON Schema accepts or refuses, and schemas that refer to others."""

import json
from typing import Any

import orjson
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference

from support.schema_registry import framed
from workorders.core.items import Rejection
from workorders.kafka.formats.decoded import Decoded
from workorders.kafka.formats.decoders import RegistryDecoder
from workorders.kafka.formats.json_schema import FileSchemaDecoder, parse

LINE = {"type": "object", "required": ["sku"]}
ORDER = {"type": "object", "properties": {"line": {"$ref": "line.json"}, "secret": {"type": "integer"}}}


class Registered:
    """A schema and the one that it refers to; the integration tests have a real registry."""

    def __init__(self, schema: str, referred: str) -> None:
        self._schema, self._referred = schema, referred

    def schema(self, _schema_id: int) -> Schema:
        return Schema(self._schema, "JSON", [SchemaReference("line.json", "line", 1)])

    def reference(self, _subject: str, _version: int) -> Schema:
        return Schema(self._referred, "JSON", [])

    def registration(self, _schema_id: int, _subject: str) -> bytes:
        return b"{}"


def decoded(value: Any, schema: Any = ORDER, referred: str | None = None) -> Decoded | Rejection:
    text = orjson.dumps(LINE).decode() if referred is None else referred
    registry: Any = Registered(orjson.dumps(schema).decode(), text)
    return RegistryDecoder(registry, parse, "value").decode("orders", framed(7, orjson.dumps(value)))


def test_a_schema_may_refer_to_another_one_of_the_registry() -> None:
    assert isinstance(decoded({"line": {"sku": "x"}}), Decoded)
    assert decoded({"line": {}}) == Rejection(
        "schema-violated", "the value violates schema 7: the rule /required does not hold"
    )


def test_a_rejection_quotes_no_value() -> None:
    found = decoded({"secret": "correct horse"})
    assert isinstance(found, Rejection)
    assert "horse" not in found.detail


BIG = 2**64


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"maximum": BIG}, b"18446744073709551616", b"18446744073709551617"),
        ({"const": -BIG - 1}, b"-18446744073709551617", b"-18446744073709551616"),
        ({"maximum": 1}, b"0.99999999999999999999", b"1.00000000000000000001"),
        ({"multipleOf": 0.01}, b"12345678901234567.89", b"12345678901234567.891"),
    ],
    ids=str,
)
def test_a_number_that_a_double_would_round_is_checked_exactly_and_kept(schema: Any, good: bytes, bad: bytes) -> None:
    registry: Any = Registered(json.dumps(schema), "{}")
    by_registry = RegistryDecoder(registry, parse, "value")
    for_file = FileSchemaDecoder(json.dumps(schema))
    for value, accepted in ((good, True), (bad, False)):
        registered, plain = by_registry.decode("orders", framed(7, value)), for_file.decode("orders", value)
        assert isinstance(registered, Decoded) is isinstance(plain, Decoded) is accepted
        assert not accepted or (isinstance(registered, Decoded) and registered.json == value)


def test_a_deep_value_with_a_long_number_is_checked() -> None:
    deep = b'{"a":' * 1020 + b"12345678901234567890" + b"}" * 1020
    assert FileSchemaDecoder('{"type":"object"}').decode("orders", deep) == Decoded(deep)


def test_what_is_no_json_is_rejected_by_a_schema_of_the_registry() -> None:
    registry: Any = Registered("{}", "{}")
    assert RegistryDecoder(registry, parse, "value").decode("orders", framed(7, b"{")) == Rejection(
        "undecodable",
        "the value violates schema 7: it is not JSON (unexpected end of data); the sender must correct the value",
    )


@pytest.mark.parametrize(
    ("schema", "referred"),
    [({"type": "nonsense"}, None), ({"$ref": "https://example.com/schema"}, None), (ORDER, "no JSON")],
    ids=["no schema", "elsewhere", "reference without JSON"],
)
def test_a_schema_that_cannot_be_used_rejects_its_messages(schema: Any, referred: str | None) -> None:
    found = decoded({}, schema, referred)
    assert isinstance(found, Rejection)
    assert found.code == "unusable-schema"


def test_the_schema_of_a_file_leaves_what_is_no_json_to_the_validation_of_all_values() -> None:
    one = FileSchemaDecoder('{"required":["id"]}')
    assert one.decode("orders", b'{"id": 1.0}') == Decoded(b'{"id": 1.0}')
    assert one.decode("orders", b"rubbish") == Decoded(b"rubbish")
    assert one.decode("orders", b"{}") == Rejection(
        "schema-violated", "the value violates json_schema: the rule /required does not hold"
    )
