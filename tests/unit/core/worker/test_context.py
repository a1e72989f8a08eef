"""Headers, whatever their trigger."""

from typing import Any

import pytest

from workorders.core.worker.context import first_header_values


def test_the_first_of_several_headers_counts_and_case_does_not() -> None:
    request = {"headers": [["X-Tenant", "north"], ["x-tenant", "south"], ["other", "x"]]}
    assert first_header_values(request, ["x-TENANT", "missing"]) == {"x-TENANT": "north"}


def test_bytes_that_are_text_are_read_and_others_are_left_out() -> None:
    request = {"headers": [["a", {"base64": "bm9ydGg="}], ["b", {"base64": "/w=="}], ["c", None], ["c", "second"]]}
    assert first_header_values(request, ["a", "b", "c"]) == {"a": "north", "c": "second"}


@pytest.mark.parametrize("request_", [{}, {"headers": None}, {"headers": "x"}, {"headers": [1, ["a"], [1, "b"]]}])
def test_a_request_without_headers_has_none(request_: dict[str, Any]) -> None:
    assert first_header_values(request_, ["a"]) == {}
