"""Inputs and outputs."""

import math

import pytest

from workorders.core.worker.exceptions import InvalidValueError, OutputTooLargeError
from workorders.core.worker.json_values import dumps, loads, serialize_output


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None, "ä"]}, 2**80, -(2**63), 12345678901234567890123, "1" * 30])
def test_a_value_comes_back_with_every_digit(value: object) -> None:
    assert loads(dumps(value)) == value


@pytest.mark.parametrize("value", [object(), {"mean": math.nan}, "a\0b", "\ud800"])
def test_what_json_or_jsonb_cannot_hold_is_refused_for_good(value: object) -> None:
    with pytest.raises(InvalidValueError, match="JSON cannot hold what the function returned or published: the value"):
        serialize_output(value, 100)


def test_what_a_run_returned_is_kept_as_json_and_nothing_of_nothing() -> None:
    assert serialize_output({"bed": 3}, 100) == b'{"bed":3}'
    assert serialize_output(False, 100) == b"false"
    assert serialize_output(None, 100) is None


def test_an_output_beyond_the_workflows_size_is_refused_with_both_sizes() -> None:
    assert serialize_output("1234", 6) == b'"1234"'
    with pytest.raises(OutputTooLargeError, match=r"has 7 bytes, more than max_output_bytes \(6\)"):
        serialize_output("12345", 6)
