"""JSON that a JSON Schema accepts or refuses, and schemas that refer to others."""

import json
from typing import Any

import orjson
import pytest

from support.schema_registry import Registered, decode, framed
from workorders.core.items import Rejection
from workorders.kafka.formats.decoded import Decoded
from workorders.kafka.formats.json_schema import make_decoder, parse
from workorders.kafka.formats.registry import RegistryDecoder

LINE = {"type": "object", "required": ["sku"]}
ORDER = {"type": "object", "properties": {"line": {"$ref": "line.json"}, "secret": {"type": "integer"}}}


def decoded(value: Any, schema: Any = ORDER, referred: str | None = None) -> Decoded | Rejection:
    registry = Registered(schema, {"line.json": (LINE if referred is None else referred, [])})
    return decode(RegistryDecoder(registry, parse, "value"), framed(7, orjson.dumps(value)))


def test_a_schema_may_refer_to_another_one_of_the_registry() -> None:
    assert isinstance(decoded({"line": {"sku": "x"}}), Decoded)
    assert decoded({"line": {}}) == Rejection(
        "schema-violated", "the value violates schema 7: the rule /required does not hold"
    )


def test_a_rejection_quotes_no_value() -> None:
    found = decoded({"secret": "correct horse"})
    assert isinstance(found, Rejection)
    assert "horse" not in found.detail


@pytest.mark.parametrize("text", [b"18446744073709551617", b"12345678901234567.891", b"1.5" + b"0" * 60_000])
def test_a_number_that_a_double_rounds_is_checked_as_a_double_and_kept(text: bytes) -> None:
    one = make_decoder('{"minimum":1,"maximum":1e20}')
    assert decode(one, text) == Decoded(text)


def test_a_deep_value_is_checked() -> None:
    deep = b'{"a":' * 1020 + b"12345678901234567890" + b"}" * 1020
    assert decode(make_decoder('{"type":"object"}'), deep) == Decoded(deep)


@pytest.mark.parametrize("rule", [{"required": ["id"]}, {"properties": {"x": {"type": "string"}}}], ids=str)
def test_a_deep_value_for_which_a_rule_does_not_hold_is_rejected(rule: Any) -> None:
    found = decode(make_decoder(json.dumps(rule)), b'{"x":' + b"[" * 300 + b"]" * 300 + b"}")
    clause = "a rule does not hold for a value of very many levels"
    assert found == Rejection("schema-violated", f"the value violates json_schema: {clause}")


def tree(width: int, steps: int = 0) -> dict[str, Any]:
    """Return a schema that looks so many times at a part of a value as at the value, in so many steps."""
    part: Any = {"properties": {"a": {"$ref": "#"}}}
    for _ in range(steps):
        part = {"allOf": [part]}
    return {"allOf": [part] * width}


@pytest.mark.parametrize(
    ("schema", "levels"),
    [(tree(2), 40), (tree(1, 50), 1000), ({"items": {"anyOf": [{"pattern": r"^(a|a?)+\1$"}, True]}}, 0)],
    ids=["exponential", "stack", "steps back"],
)
def test_a_message_that_a_schema_makes_very_long_to_check_is_rejected_unchecked(schema: Any, levels: int) -> None:
    deep = b'{"a":' * levels + b"1" + b"}" * levels if levels else b"[" + b'"aaaaaaaaaaaa!",' * 30_000 + b"1]"
    found = decode(make_decoder(json.dumps(schema)), deep)
    clause = "to check it would take too long; the sender must split it"
    assert found == Rejection("too-large", f"the value violates json_schema: {clause}")


@pytest.mark.parametrize(
    "schema",
    [
        tree(1),
        tree(2),
        {
            "$defs": {"n": {"properties": {"left": {"$ref": "#/$defs/n"}, "right": {"$ref": "#/$defs/n"}}}},
            "items": True,
        },
        {"$id": "https://example.com/a", "$defs": {"b": {"$id": "b", "$anchor": "c"}}, "$ref": "b#c"},
        {"definitions": {"a/b": {}}, "properties": {"id": {"$ref": "#/definitions/a~1b"}}, "id": "an annotation"},
        {"$dynamicAnchor": "n", "properties": {"a": {"$dynamicRef": "#n"}}, "unevaluatedProperties": False},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    ],
    ids=["list", "tree", "binary", "ids", "pointer", "dynamic", "metaschema"],
)
def test_a_schema_that_refers_to_itself_part_by_part_is_used(schema: Any) -> None:
    assert decode(make_decoder(json.dumps(schema)), b'{"a":{"a":{}}}') == Decoded(b'{"a":{"a":{}}}')


@pytest.mark.parametrize(
    ("schema", "clause"),
    [
        ({"$ref": "#"}, "it refers to itself, or in more than 64 steps"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}, "itself"),
        (tree(1, 100), "it refers to itself, or in more than 64 steps"),
        ({"$ref": "#/$defs/none"}, "it refers to a schema that is neither in it nor among its references"),
        ({"patternProperties": {f"{place}(a{{30}}){{700}}": True for place in range(100)}}, "is not a"),
    ],
    ids=["itself", "circle", "steps", "nothing", "patterns"],
)
def test_a_schema_without_a_bound_is_refused(schema: Any, clause: str) -> None:
    with pytest.raises(ValueError, match=clause):
        make_decoder(json.dumps(schema))


def test_what_is_no_json_is_rejected_by_a_schema_of_the_registry() -> None:
    assert decode(RegistryDecoder(Registered({}), parse, "value"), framed(7, b"{")) == Rejection(
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
    one = make_decoder('{"required":["id"]}')
    assert decode(one, b'{"id": 1.0}') == Decoded(b'{"id": 1.0}')
    assert decode(one, b"rubbish") == Decoded(b"rubbish")
    assert decode(one, b"{}") == Rejection(
        "schema-violated", "the value violates json_schema: the rule /required does not hold"
    )
