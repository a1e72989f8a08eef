"""Spans of OpenTelemetry in tests, and the sender's trace that they continue."""

from typing import Final

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
PARENT: Final = "b7ad6b7169203331"


def send_spans_to(processor: SpanProcessor, monkeypatch: pytest.MonkeyPatch) -> TracerProvider:
    """Give all spans of the process to a processor until the test ends."""
    provider = TracerProvider()
    provider.add_span_processor(processor)
    # OpenTelemetry has one provider per process, which can be set once only.
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return provider


def ids_of(span: ReadableSpan) -> tuple[str, str]:
    """Return the ids of a span's trace and of the span itself, as headers have them."""
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"


def parent_of(span: ReadableSpan) -> str | None:
    """Return the id of a span's parent, as headers have it; None if it has none."""
    return None if span.parent is None else f"{span.parent.span_id:016x}"
