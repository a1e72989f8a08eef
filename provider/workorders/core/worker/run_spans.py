"""Spans of runs: each continues the trace of the message or the request that its work order came from."""

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import orjson

from workorders.core import tracing
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import RunResult
from workorders.core.trace_headers import first_header_values

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_NANOSECONDS: Final = 1_000_000_000


class RunSpans:
    """The spans of the runs that are at work, or were sent ahead: one that begins again replaces the first.

    The process of the function makes no span: it may die at any moment, and knows no exporter.
    """

    def __init__(self, workflow: str) -> None:
        self._workflow = workflow
        self._spans: dict[UUID, Span] = {}

    def begin(self, run: ClaimedRun) -> str | None:
        """Begin the span of a run; return its traceparent, or None if traces go nowhere or this one is not sampled."""
        if not tracing.is_on():
            return None
        headers = first_header_values(orjson.loads(run.request), tracing.HEADERS)
        attributes: dict[str, Any] = {
            "workorders.workflow": self._workflow,
            "workorders.trigger": run.trigger,
            "workorders.work_order.id": str(run.work_order_id),
            "workorders.run.id": str(run.run_id),
            "workorders.run.attempt": run.attempt,
            "workorders.stream": run.stream,
            "workorders.position": run.position,
        }
        span = tracing.tracer().start_span(
            f"run {self._workflow}",
            tracing.sent_context(headers),
            attributes={name: value for name, value in attributes.items() if value is not None},
        )
        self._spans[run.run_id] = span
        return tracing.traceparent_of(span)

    def end(self, result: RunResult) -> None:
        """End the span of a run."""
        span = self._spans.pop(result.run_id, None)
        if span is None:
            return
        span.set_attribute("workorders.run.state", result.state)
        if result.state != "success":
            # Without the text of the error, which may quote the input.
            tracing.fail(span, result.error_type or result.state)
        span.end(None if result.finished_at is None else int(result.finished_at.timestamp() * _NANOSECONDS))
