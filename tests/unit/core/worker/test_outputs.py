"""What is kept of what a run returned."""

import pytest

from workorders.core.worker.exceptions import OutputTooLargeError
from workorders.core.worker.outputs import kept


def test_what_a_run_returned_is_kept_as_json_and_nothing_of_nothing() -> None:
    assert kept({"bed": 3}, 100) == b'{"bed":3}'
    assert kept(False, 100) == b"false"
    assert kept(None, 100) is None


def test_an_output_beyond_the_workflows_size_is_refused_with_both_sizes() -> None:
    assert kept("1234", 6) == b'"1234"'
    with pytest.raises(OutputTooLargeError, match=r"has 7 bytes, more than output_bytes \(6\)"):
        kept("12345", 6)
