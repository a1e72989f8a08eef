"""Inputs and outputs."""

import pytest

from workorders.core.json_text import dumps
from workorders.core.worker.exceptions import OutputTooLargeError
from workorders.core.worker.json_values import loads, serialize_output


@pytest.mark.parametrize("value", [{"a": [1, 2.5, None, "ä"]}, 2**80, -(2**63), 12345678901234567890123, "1" * 30])
def test_a_value_comes_back_with_every_digit(value: object) -> None:
    assert loads(dumps(value)) == value


def test_what_a_run_returned_is_kept_as_json_and_nothing_of_nothing() -> None:
    assert serialize_output({"bed": 3}, 100) == b'{"bed":3}'
    assert serialize_output(False, 100) == b"false"
    assert serialize_output(None, 100) is None


def test_an_output_beyond_the_workflows_size_is_refused_with_both_sizes() -> None:
    assert serialize_output("1234", 6) == b'"1234"'
    with pytest.raises(OutputTooLargeError, match=r"has 7 bytes, more than output_bytes \(6\)"):
        serialize_output("12345", 6)
