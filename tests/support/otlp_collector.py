"""An OTLP endpoint that keeps the spans and the metrics that it is sent, by HTTP."""

import threading
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from local_stack.ports import LOOPBACK


class OtlpCollector:
    """Receives spans and metrics, from entering the context until leaving it."""

    def __init__(self) -> None:
        #: Spans so far, in the order in which they came.
        self.spans: list[Span] = []
        #: Metrics so far, each with its points of one export.
        self.metrics: list[Metric] = []
        self._server = ThreadingHTTPServer((LOOPBACK, 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="collector", daemon=True)

    @property
    def url(self) -> str:
        """What `OTEL_EXPORTER_OTLP_ENDPOINT` is set to."""
        return f"http://{LOOPBACK}:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def values(self, name: str) -> list[tuple[float, Mapping[str, str]]]:
        """Return the values of a gauge or a counter so far, each with its tags."""
        return [
            (point.as_double or float(point.as_int), tags_of(point.attributes))
            for metric in list(self.metrics)
            if metric.name == name
            for point in (*metric.gauge.data_points, *metric.sum.data_points)
        ]

    def _take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            self.spans += _spans(ExportTraceServiceRequest.FromString(body))
        else:
            self.metrics += _metrics(ExportMetricsServiceRequest.FromString(body))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector._take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


def tags_of(attributes: Iterable[KeyValue]) -> dict[str, str]:
    """Return the attributes that are text."""
    return {attribute.key: attribute.value.string_value for attribute in attributes}


def _spans(request: ExportTraceServiceRequest) -> list[Span]:
    return [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]


def _metrics(request: ExportMetricsServiceRequest) -> list[Metric]:
    return [
        metric for resource in request.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
    ]
