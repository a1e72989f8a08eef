"""OpenTelemetry's traces, where its API is installed and an SDK is configured; otherwise nothing.

Airflow's processes configure the SDK if `[traces] otel_on` is set. A span costs nothing here without it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:  # an optional extra
    HAS_API = False
else:
    HAS_API = True

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

HEADERS: Final = ("traceparent", "tracestate")
"""By which a sender gives its context."""

_NAME: Final = "workorders"


def is_on() -> bool:
    """Return whether spans go anywhere."""
    return HAS_API and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)


def tracer() -> "Tracer":
    """Return what makes spans; only if `is_on`."""
    return trace.get_tracer(_NAME)


def sent_context(headers: Mapping[str, str]) -> "Context":
    """Return the context that a sender gave in these headers; without one, that of a new trace."""
    return TraceContextTextMapPropagator().extract(headers, context=trace.set_span_in_context(trace.INVALID_SPAN))


def traceparent_of(span: "Span") -> str | None:
    """Return the text by which others continue a span; None for one that is not recorded."""
    carrier: dict[str, str] = {}
    if span.is_recording():
        TraceContextTextMapPropagator().inject(carrier, context=trace.set_span_in_context(span))
    return carrier.get("traceparent")


def fail(span: "Span", reason: Any) -> None:
    """Mark a span as failed."""
    span.set_status(trace.StatusCode.ERROR, str(reason))
