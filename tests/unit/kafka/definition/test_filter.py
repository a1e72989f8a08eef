"""Which messages a filter takes, and which filters are refused."""

import pickle
from typing import Any

import pytest

from support.definitions import define
from workorders.core.definitions.loading import parse
from workorders.core.items import Item, Rejection
from workorders.kafka.definition.filter import MessageFilter

REQUEST = b'{"key":"k","topic":"orders","headers":[["Type","created"],["type","changed"],["none",null],["n","1"]]}'
MESSAGE = Item("orders/0", 1, REQUEST, b'{"country":"DE","n":1.0,"deep":{"a~/b":[true]},"no":null,"list":[1]}')
REJECTED = Item("orders/0", 1, REQUEST, None, Rejection("not-json", "it is no JSON"), b"rubbish")


def takes(text: str, message: Item = MESSAGE) -> bool:
    found = MessageFilter.parse(parse(text, where="")[0])
    return found.holds(REQUEST, message)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("header:type: created", True),
        ("header:TYPE: created", True),
        ("header:type: changed", False),  # the first header of a name counts
        ("header:type: [cancelled, created]", True),
        ("header:type: [cancelled, changed]", False),
        ("header:type: {not: created}", False),
        ("header:type: {not: [cancelled, changed]}", True),
        ("header:missing: {not: created}", True),
        ("header:missing: {exists: false}", True),
        ("header:missing: {not: created, exists: true}", False),
        ("header:none: {exists: true}", False),
        ("header:n: '1'", True),
        ("key: k", True),
        ("stream: orders/0", True),
        ("request:/topic: orders", True),
        ("body:/country: DE", True),
        ("body:/country: de", False),
        ("body:/n: 1", True),
        ("body:/n: 1.0", True),
        ("body:/n: '1'", False),
        ("body:/n: true", False),
        ("body:/deep/a~0~1b/0: true", True),
        ("body:/no: {exists: false}", True),
        ("body:/list: {exists: true}", True),
        ("{header:type: created, body:/country: DE}", True),
        ("{header:type: created, body:/country: FR}", False),
    ],
)
def test_a_message_is_taken_if_all_conditions_hold(text: str, expected: bool) -> None:
    assert takes(text) is expected


def test_a_country_a_ratio_or_a_date_is_the_text_that_a_message_has() -> None:
    for text in ("NO", "1:20", "2026-03-01"):
        assert takes(f"body:/is: [DE, {text}, SE]", MESSAGE._replace(body=b'{"is":"%b"}' % text.encode()))


def test_a_rejected_message_stays_visible_unless_what_it_has_tells_that_it_is_left_out() -> None:
    assert takes("body:/country: FR", REJECTED)
    assert takes("{header:type: created, body:/country: FR}", REJECTED)
    assert not takes("{header:type: changed, body:/country: DE}", REJECTED)


def test_a_message_whose_request_was_too_large_is_judged_by_all_of_it() -> None:
    assert takes("header:type: created", REJECTED._replace(request=b'{"key":null,"headers":[]}'))


def test_a_filter_travels_to_executors_and_to_the_database_and_back() -> None:
    found = MessageFilter.parse({"header:type": ["a", "b"], "body:/n": {"not": 1.5, "exists": True}})
    assert pickle.loads(pickle.dumps(found)) == found
    definition = define("orders", filter=found)
    assert type(definition).model_validate(definition.model_dump(mode="json")).filter == found


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "selectors with a condition for each"),
        ("header:type", "selectors with a condition for each"),
        ({"type": "created"}, "expected stream, key, body, header:NAME"),
        ({"header:type": 1}, "expected for header:type a text, in quotes"),
        ({"header:type": []}, "a list with at least one value"),
        ({"header:type": {}}, "{not: ...}, or {exists: true or false}"),
        ({"header:type": {"equals": "a"}}, "{not: ...}, or {exists: true or false}"),
        ({"header:type": {"exists": "no"}}, "{not: ...}, or {exists: true or false}"),
        ({"body:/n": None}, "{exists: false} for null"),
        ({"body:/n": float("nan")}, "a text, a number, true or false"),
        ({"body:/n": {"not": [[1]]}}, "a text, a number, true or false"),
    ],
)
def test_a_filter_of_another_form_is_refused_with_the_form(given: Any, words: str) -> None:
    with pytest.raises(ValueError, match="filter") as refused:
        define("orders", filter=given)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("headers", "name"), [("none", "type"), (["other"], "type"), ("all", "authorization")], ids=str
)
def test_a_filter_by_a_header_that_no_request_has_is_refused(headers: Any, name: str) -> None:
    with pytest.raises(ValueError, match=f"add it to `headers`, got header:{name}, which no event"):
        define("orders", headers=headers, filter={f"header:{name}": "a"})
    assert define("orders", headers=[name.upper()], filter={f"header:{name}": "a"}).filter
