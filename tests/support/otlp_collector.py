"""An OTLP endpoint that keeps the spans and the metrics that it is sent, by HTTP."""

from collections.abc import Iterable, Mapping

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from local_stack.loopback_server import LoopbackServer, Request


class OtlpCollector(LoopbackServer):
    """Receives spans and metrics, from entering the context until leaving it.

    `OTEL_EXPORTER_OTLP_ENDPOINT` is set to its `url`.
    """

    def __init__(self) -> None:
        super().__init__(self._take)
        #: Spans so far, in the order in which they came.
        self.spans: list[Span] = []
        #: Metrics so far, each with its points of one export.
        self.metrics: list[Metric] = []

    def values(self, name: str) -> list[tuple[float, Mapping[str, str]]]:
        """Return the values of a gauge or a counter so far, each with its tags."""
        return [
            (point.as_double or float(point.as_int), tags_of(point.attributes))
            for metric in list(self.metrics)
            if metric.name == name
            for point in (*metric.gauge.data_points, *metric.sum.data_points)
        ]

    def _take(self, request: Request) -> tuple[int, bytes]:
        if request.path == "/v1/traces":
            self.spans += _spans(ExportTraceServiceRequest.FromString(request.body))
        else:
            self.metrics += _metrics(ExportMetricsServiceRequest.FromString(request.body))
        return 200, b""


def tags_of(attributes: Iterable[KeyValue]) -> dict[str, str]:
    """Return the attributes that are text."""
    return {attribute.key: attribute.value.string_value for attribute in attributes}


def _spans(request: ExportTraceServiceRequest) -> list[Span]:
    return [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]


def _metrics(request: ExportMetricsServiceRequest) -> list[Metric]:
    return [
        metric for resource in request.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
    ]
