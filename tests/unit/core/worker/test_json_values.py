"""Inputs and outputs."""

import math
from dataclasses import dataclass
from datetime import date

import pytest

from workorders.core.worker.exceptions import InvalidValueError, OutputTooLargeError
from workorders.core.worker.json_values import dumps, loads, serialize_output


@dataclass
class Measured:
    """A value as a function may return one."""

    mean: float
    day: date


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None, "ä"]}, 2**80, -(2**63), 12345678901234567890123, "1" * 30])
def test_a_value_comes_back_with_every_digit(value: object) -> None:
    assert loads(dumps(value)) == value


@pytest.mark.parametrize("value", [object(), {1, 2}, {"a": b"bytes"}])
def test_what_json_cannot_represent_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        dumps(value)


@pytest.mark.parametrize("value", ["a\0b", {"\0": 1}, "\ud800", {"big": 2**80, "nan": math.nan}])
def test_what_jsonb_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(InvalidValueError):
        serialize_output(value, 100)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"mean": math.nan}, "/mean is nan"),
        ({"all": [1, {"high": math.inf}], "none": None}, "/all/1/high is inf"),
        ({"seen": {1, 2}}, "/seen is set"),
        ({"big": 2**80, "text": "\ud800"}, "/text is str"),
        (Measured(math.nan, date(2026, 1, 2)), "mean"),
    ],
)
def test_what_json_cannot_hold_is_named_with_its_path(value: object, place: str) -> None:
    with pytest.raises(InvalidValueError, match=place):
        dumps(value)


def test_a_date_is_written_the_same_beside_an_integer_of_any_size() -> None:
    day = date(2026, 1, 2)
    assert dumps({"day": day, "n": 2**80, "of": Measured(1.5, day)}) == dumps(
        {"day": "2026-01-02", "n": 2**80, "of": {"mean": 1.5, "day": "2026-01-02"}}
    )


def test_a_number_as_a_key_becomes_text() -> None:
    assert loads(dumps({1: "a"})) == {"1": "a"}


def test_an_escaped_escape_is_no_nul() -> None:
    assert dumps("\\u0000") == b'"\\\\u0000"'


def test_what_a_run_returned_is_kept_as_json_and_nothing_of_nothing() -> None:
    assert serialize_output({"bed": 3}, 100) == b'{"bed":3}'
    assert serialize_output(False, 100) == b"false"
    assert serialize_output(None, 100) is None


def test_an_output_beyond_the_workflows_size_is_refused_with_both_sizes() -> None:
    assert serialize_output("1234", 6) == b'"1234"'
    with pytest.raises(OutputTooLargeError, match=r"has 7 bytes, more than output_bytes \(6\)"):
        serialize_output("12345", 6)
