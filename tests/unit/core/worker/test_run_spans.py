"""The span of a run on its way to a collector, by OTLP over HTTP."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from uuid import uuid4

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from support.spans import PARENT, TRACE, send_to
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import RunResult
from workorders.core.worker.run_spans import RunSpans


class Collector(HTTPServer):
    """Takes spans as an OTLP endpoint does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[ExportTraceServiceRequest] = []


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        """Take a request."""
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def claimed(request: bytes = b"{}") -> ClaimedRun:
    return ClaimedRun(uuid4(), uuid4(), 1, 0, None, "orders", "orders/0@id", 7, request, b"{}")


def ended(run: ClaimedRun) -> RunResult:
    now = datetime.now(UTC)
    return RunResult(run_id=run.run_id, state="success", started_at=now, finished_at=now)


def test_a_collector_gets_the_span_with_its_parent(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"http://127.0.0.1:{collector.server_port}/v1/traces"
    provider = send_to(SimpleSpanProcessor(OTLPSpanExporter(endpoint=address)), monkeypatch)
    spans, run = RunSpans("ship"), claimed(f'{{"headers":[["traceparent","00-{TRACE}-{PARENT}-01"]]}}'.encode())
    traceparent = spans.begin(run)
    spans.end(ended(run))
    provider.shutdown()
    (request,) = collector.received
    (span,) = request.resource_spans[0].scope_spans[0].spans
    assert (span.trace_id.hex(), span.parent_span_id.hex(), span.name) == (TRACE, PARENT, "run ship")
    assert traceparent == f"00-{TRACE}-{span.span_id.hex()}-01"


def test_without_a_provider_a_run_has_no_span_and_its_request_is_not_read() -> None:
    spans, run = RunSpans("ship"), claimed(b"not even JSON")
    assert spans.begin(run) is None
    spans.end(ended(run))
    spans.forget(run)
