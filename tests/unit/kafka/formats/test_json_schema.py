"""JSON that a JSON Schema accepts or refuses, and schemas that refer to others."""

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
