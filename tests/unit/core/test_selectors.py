"""What a selector picks out of an item."""

import pickle
from decimal import Decimal

import pytest
from pydantic import BaseModel, ValidationError

from workorders.core.definitions.fields import KeyField, SelectorField
from workorders.core.exceptions import ConfigurationError
from workorders.core.items import Item
from workorders.core.selectors import Selector, ordering_keys_of


def item(body: bytes | None = b"{}", request: bytes = b"{}", stream: str | None = "orders/0") -> Item:
    return Item(stream, 7, request, body)


def value(text: str, of: Item) -> bytes | None:
    return Selector.parse(text).value(of)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("stream", b'"orders/0"'),
        ("key", b'"customer 7"'),
        ("header:Event-Id", b'"first"'),
        ("header:binary", b'{"base64":"/w=="}'),
        ("request:/offset", b"12"),
        ("body:/order/lines/1/sku", b'"b"'),
        ("body:/a~1b/m~0n", b"true"),
        ("body:/", b'"empty name"'),
        ("body:/order/lines/0", b'{"qty":2,"sku":"a"}'),
    ],
)
def test_a_selector_finds_its_value(text: str, expected: bytes) -> None:
    found = item(
        body=b'{"order": {"lines": [{"sku": "a", "qty": 2}, {"sku": "b"}]}, "a/b": {"m~n": true}, "": "empty name"}',
        request=b'{"key":"customer 7","offset":12,"headers":[["other","x"],["event-id","first"],["Event-Id","second"],'
        b'["binary",{"base64":"/w=="}]]}',
    )
    assert value(text, found) == expected


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("stream", item(stream=None)),
        ("key", item(request=b'{"key":null}')),
        ("key", item(request=b"{}")),
        ("header:id", item(request=b'{"headers":[["id",null],["id","x"]]}')),
        ("header:id", item(request=b'{"headers":[[{"base64":"/w=="},"x"],["ids","x"]]}')),
        ("header:id", item(request=b'{"headers":{"id":"x"}}')),
        ("header:id", item()),
        ("body:/a", item(body=None)),
        ("body", item(body=None)),
        ("body:/a", item(b'{"a":null}')),
        ("body:/a/b", item(b'{"a":"b"}')),
        ("body:/a/01", item(b'{"a":[1,2]}')),
        ("body:/a/-", item(b'{"a":[1,2]}')),
        ("body:/a/2", item(b'{"a":[1,2]}')),
        (f"body:/a/{'9' * 5000}", item(b'{"a":[1,2]}')),
    ],
)
def test_a_missing_value_is_no_value(text: str, of: Item) -> None:
    selector = Selector.parse(text)
    assert selector.value(of) is None
    assert selector.ordering_key(of) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"1", b"1.0"),
        (b"1", b"10e-1"),
        (b"0", b"-0.0"),
        (b"1500", b"1.5E3"),
        (b'{"a":1,"b":[2]}', b'{ "b": [2.0], "a": 1 }'),
        (b'"\\u00e9"', '"é"'.encode()),
        (b"12345678901234567890123", b"12345678901234567890123.0"),
    ],
)
def test_two_spellings_of_a_value_are_one(one: bytes, other: bytes) -> None:
    assert value("body:/v", item(b'{"v":%b}' % one)) == value("body:/v", item(b'{"v":%b}' % other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"1", b'"1"'),
        (b"1", b"true"),
        (b"1", b"10"),
        (b"1", b"-1"),
        (b"[1]", b"1"),
        (b"[null]", b"[]"),
        (b"12345678901234567890123", b"12345678901234567890124"),
        (b"0.1", b"0.10000000000000000001"),
        (b'{"a":12345678901234567890123}', b'{"a":12345678901234567890124}'),
        (b"1" + b"0" * 5000 + b"1", b"1" + b"0" * 5000 + b"2"),
        (b"1e400", b"1e401"),
    ],
)
def test_two_values_never_become_one(one: bytes, other: bytes) -> None:
    left, right = value("body:/v", item(b'{"v":%b}' % one)), value("body:/v", item(b'{"v":%b}' % other))
    assert None not in {left, right}
    assert left != right


def test_the_whole_body_is_the_same_however_it_is_written() -> None:
    assert value("body", item(b'{"a":1,"b":2}')) == value("body", item(b'{"b": 2, "a": 1}'))


def test_a_value_is_found_as_python_has_it() -> None:
    assert Selector.parse("body:/n").found(item(b'{"n":5}')) == 5
    assert Selector.parse("body:/n").found(item(b'{"n":5.25}')) == Decimal("5.25")


def test_an_ordering_key_is_a_stable_number_of_64_bits() -> None:
    ordering_keys = {Selector.parse("body:/v").ordering_key(item(b'{"v":%d}' % number)) for number in range(1000)}
    assert len(ordering_keys) == 1000
    assert all(ordering_key is not None and -(2**63) <= ordering_key < 2**63 for ordering_key in ordering_keys)
    assert Selector.parse("body:/v").ordering_key(item(b'{"v":"a"}')) == 1616797661514831016


@pytest.mark.parametrize(
    ("text", "selector", "body"),
    [
        ("PAT-1", "body:/a", b'{"a":"PAT-1"}'),
        ("17", "body:/a", b'{"a":"17"}'),
        ("17", "body:/a", b'{"a":17}'),
        ("1.50", "body:/a", b'{"a":1.5}'),
        ("true", "body:/a", b'{"a":true}'),
        ('["x", 2]', ["body:/a", "body:/b"], b'{"a":"x","b":2}'),
    ],
)
def test_an_ordering_key_is_found_by_its_text_and_by_its_json(
    text: str, selector: str | list[str], body: bytes
) -> None:
    assert Selector.parse(selector).ordering_key(item(body)) in ordering_keys_of(text)


@pytest.mark.parametrize("text", ["\udcff", '"\\ud800"', "", "NaN", "[" * 100_000, "1e99999999999999999999"])
def test_any_text_may_be_searched_for_as_an_ordering_key(text: str) -> None:
    assert len(ordering_keys_of(text)) <= 2


def test_a_selector_that_was_used_travels_to_another_process() -> None:
    selector = Selector.parse("stream")
    assert selector.value(item()) == pickle.loads(pickle.dumps(selector)).value(item())


@pytest.mark.parametrize(
    "text", ["", "stream:", "streams", "header:", "body:", "body:a", "request", "key:/a", "body:/a~2", "offset", 7]
)
def test_another_text_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ConfigurationError, match="expected "):
        Selector.parse(text)


def test_a_definition_reads_and_writes_the_text() -> None:
    class Model(BaseModel):
        key: SelectorField

    model = Model.model_validate({"key": "body:/a"})
    assert model.key == Selector.parse("body:/a")
    assert Model.model_validate(model.model_dump()).key == model.key
    assert model.model_dump(mode="json") == {"key": "body:/a"}
    with pytest.raises(ValidationError, match="expected stream, key"):
        Model.model_validate({"key": "bodies"})


COMPOSITE = ["header:ce_source", "body:/id"]


def test_a_list_of_selectors_is_one_key_of_all_their_values() -> None:
    both = item(b'{"id":1.0}', b'{"headers":[["ce_source","shop"]]}')
    one = Selector.parse(COMPOSITE)
    assert one.value(both) == b'["shop",1]'
    assert one.parts == tuple(COMPOSITE)
    assert Selector.parse(str(one)) == one == pickle.loads(pickle.dumps(one))
    assert one.ordering_key(both) != Selector.parse(COMPOSITE[::-1]).ordering_key(both)
    assert one.value(item(b'{"id":null}', both.request)) is None
    assert one.value(item(b'{"id":1}')) is None


def test_a_definition_reads_and_writes_a_list_where_a_key_may_be_one() -> None:
    class Model(BaseModel):
        key: KeyField
        number: SelectorField = Selector.parse("body:/n")

    model = Model.model_validate({"key": COMPOSITE})
    assert model.model_dump(mode="json")["key"] == COMPOSITE
    assert Model.model_validate(model.model_dump()) == model
    for wrong in ([], ["key", "key"], "[1", ["bodies"]):
        with pytest.raises((ValidationError, ConfigurationError), match="expected"):
            Model.model_validate({"key": wrong})
    with pytest.raises(ValidationError, match="expected one selector"):
        Model.model_validate({"key": "key", "number": COMPOSITE})


@pytest.mark.parametrize(("opening", "closing"), [(b'{"k":', b"}"), (b"[", b"]")])
def test_a_value_may_be_nested_deeply(opening: bytes, closing: bytes) -> None:
    nested = opening * 700 + b"1" + closing * 700
    assert value("body:/nested", item(body=b'{"nested":' + nested + b"}")) == nested
