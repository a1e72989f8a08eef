"""Which trace a run belongs to."""

import re

import pytest

from workorders.core.worker.trace_context import child_traceparent

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


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
