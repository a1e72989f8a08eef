"""Values of Python as JSON text."""

import math
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

import pytest

from workorders.core.json_text import dumps

BIG = 2**80
Point = namedtuple("Point", "x y")


class Color(Enum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


@dataclass
class Order:
    id: int
    price: float
    _secret: str = "kept"


@pytest.mark.parametrize("beside", [None, BIG], ids=["small numbers", "beside a number beyond 64 bits"])
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, 2.5, None, "ä", True]}, '{"a":[1,2.5,null,"ä",true]}'),
        (BIG, "1208925819614629174706176"),
        ({1: "a", "b": {Size.LARGE: 2}}, '{"1":"a","b":{"3":2}}'),
        (date(2026, 3, 1), '"2026-03-01"'),
        (datetime(2026, 3, 1, 9, tzinfo=UTC), '"2026-03-01T09:00:00+00:00"'),
        (UUID(int=7), '"00000000-0000-0000-0000-000000000007"'),
        ([Color.RED, Size.LARGE], '["red",3]'),
        ((1, Point(2, 3)), "[1,[2,3]]"),
        ([Order(BIG, 0.5)], '[{"id":1208925819614629174706176,"price":0.5}]'),
        (OrderedDict(a=1), '{"a":1}'),
        ("\\u0000", '"\\\\u0000"'),
        ("null", '"null"'),
    ],
)
def test_a_value_has_one_text_whatever_is_beside_it(value: Any, text: str, beside: Any) -> None:
    written = "null" if beside is None else str(beside)
    assert dumps([value, beside]).decode() == f"[{text},{written}]"


@pytest.mark.parametrize("beside", [None, BIG], ids=["small numbers", "beside a number beyond 64 bits"])
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (math.nan, "the value at /a~1b/1 is nan, a number that JSON does not have"),
        ({"mean": -math.inf}, "the value at /a~1b/1/mean is -inf, a number that JSON does not have"),
        (Order(1, math.inf), "the value at /a~1b/1/price is inf, a number that JSON does not have"),
        ("a\0b", "the value at /a~1b/1 has a NUL character, which no text in Postgres has"),
        ({"\0": 1}, "the value at /a~1b/1 has a key that has a NUL character, which no text in Postgres has"),
        ("\ud800", "the value at /a~1b/1 has half of a surrogate pair, which is no text"),
        ({1: 2, "1": 3}, "the value at /a~1b/1 has the key 1 as a text and as an integer"),
    ],
)
def test_what_json_or_postgres_cannot_hold_is_refused_with_its_place(value: Any, sentence: str, beside: Any) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        dumps({"a/b": [beside, value]})
    assert str(raised.value) == sentence


@pytest.mark.parametrize("beside", [None, BIG], ids=["small numbers", "beside a number beyond 64 bits"])
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({1, 2}, "the value at /a/1 is of the type set, which JSON does not have"),
        (b"bytes", "the value at /a/1 is of the type bytes, which JSON does not have"),
        (Decimal("1.5"), "the value at /a/1 is of the type Decimal, which JSON does not have"),
        (Order, "the value at /a/1 is of the type type, which JSON does not have"),
        ({True: 1}, "the value at /a/1 has the key True, which is neither a text nor an integer"),
        ({1.5: 1}, "the value at /a/1 has the key 1.5, which is neither a text nor an integer"),
        ({None: 1}, "the value at /a/1 has the key None, which is neither a text nor an integer"),
    ],
)
def test_a_type_that_json_lacks_is_refused_with_its_place(value: Any, sentence: str, beside: Any) -> None:
    with pytest.raises(TypeError) as raised:
        dumps({"a": [beside, value]})
    assert str(raised.value) == sentence


def test_a_value_that_contains_itself_or_is_too_deep_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    for value in (loop, deep):
        with pytest.raises(ValueError, match="is nested more than 1024 levels deep, or contains itself"):
            dumps(value)
