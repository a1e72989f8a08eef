"""The span of a run on its way to a collector, by OTLP over HTTP."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from support.otlp_collector import OtlpCollector
from support.spans import PARENT, TRACE, send_spans_to
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import RunResult
from workorders.core.worker.run_results import RunSpans


def claimed(request: bytes = b"{}") -> ClaimedRun:
    return ClaimedRun(uuid4(), uuid4(), 1, None, "orders", "orders/0@id", 7, request, b"{}")


def ended(run: ClaimedRun) -> RunResult:
    now = datetime.now(UTC)
    return RunResult(run_id=run.run_id, state="success", started_at=now, finished_at=now)


def test_a_collector_gets_the_span_with_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    with OtlpCollector() as collector:
        exporter = OTLPSpanExporter(endpoint=f"{collector.url}/v1/traces")
        provider = send_spans_to(SimpleSpanProcessor(exporter), monkeypatch)
        spans, run = RunSpans("ship"), claimed(f'{{"headers":[["traceparent","00-{TRACE}-{PARENT}-01"]]}}'.encode())
        traceparent = spans.begin(run)
        spans.end(ended(run))
        provider.shutdown()
    (span,) = collector.spans
    assert (span.trace_id.hex(), span.parent_span_id.hex(), span.name) == (TRACE, PARENT, "run ship")
    assert traceparent == f"00-{TRACE}-{span.span_id.hex()}-01"


def test_without_a_provider_a_run_has_no_span_and_its_request_is_not_read() -> None:
    spans, run = RunSpans("ship"), claimed(b"not even JSON")
    assert spans.begin(run) is None
    spans.end(ended(run))
