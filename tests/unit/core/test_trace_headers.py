"""The headers of a request, and the trace that they continue."""

import re
from typing import Any

import pytest

from workorders.core.trace_headers import child_traceparent, first_header_values

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


def test_the_first_of_several_headers_counts_and_case_does_not() -> None:
    request = {"headers": [["X-Tenant", "north"], ["x-tenant", "south"], ["other", "x"]]}
    assert first_header_values(request, ["x-TENANT", "missing"]) == {"x-TENANT": "north"}


def test_bytes_that_are_no_text_and_null_are_left_out() -> None:
    request = {"headers": [["b", {"base64": "/w=="}], ["c", None], ["c", "second"]]}
    assert first_header_values(request, ["b", "c"]) == {"c": "second"}


@pytest.mark.parametrize("request_", [{}, {"headers": None}, {"headers": "x"}, {"headers": [1, ["a"], [1, "b"]]}])
def test_a_request_without_headers_has_none(request_: dict[str, Any]) -> None:
    assert first_header_values(request_, ["a"]) == {}


@pytest.mark.parametrize("flags", ["00", "01"])
def test_a_trace_is_continued_with_a_new_span_and_its_flags(flags: str) -> None:
    version, trace, span, found = child_traceparent(f"00-{TRACE}-{SPAN}-{flags}").split("-")
    assert (version, trace, found) == ("00", TRACE, flags)
    assert span != SPAN
    assert re.fullmatch("[0-9a-f]{16}", span)


def test_a_later_version_is_continued_as_far_as_this_one_goes() -> None:
    assert child_traceparent(f"cc-{TRACE}-{SPAN}-01-what-the-future-holds").startswith(f"00-{TRACE}-")


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "not a trace",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"cc-{TRACE}-{SPAN}-01.more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
    ],
)
def test_without_a_valid_trace_a_new_one_begins(given: str | None) -> None:
    first, second = child_traceparent(given), child_traceparent(given)
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-00", first)
    assert TRACE not in first
    assert first.split("-")[1] != second.split("-")[1]
