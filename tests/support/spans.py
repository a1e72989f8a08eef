"""Spans of OpenTelemetry in tests, and the sender's trace that they continue."""

from typing import Final

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
PARENT: Final = "b7ad6b7169203331"


def send_to(processor: SpanProcessor, monkeypatch: pytest.MonkeyPatch) -> TracerProvider:
    """Give all spans of the process to a processor until the test ends."""
    provider = TracerProvider()
    provider.add_span_processor(processor)
    # OpenTelemetry has one provider per process, which can be set once only.
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return provider
