"""An OTLP endpoint that keeps the spans that it is sent, by HTTP."""

from collections.abc import Iterable

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from local_stack.loopback_server import LoopbackServer, Request


class OtlpCollector(LoopbackServer):
    """Receives spans, from entering the context until leaving it.

    `OTEL_EXPORTER_OTLP_ENDPOINT` is set to its `url`.
    """

    def __init__(self) -> None:
        super().__init__(self._take)
        #: Spans so far, in the order in which they came.
        self.spans: list[Span] = []

    def _take(self, request: Request) -> tuple[int, bytes]:
        if request.path == "/v1/traces":
            self.spans += _spans(ExportTraceServiceRequest.FromString(request.body))
        return 200, b""


def tags_of(attributes: Iterable[KeyValue]) -> dict[str, str]:
    """Return the attributes that are text."""
    return {attribute.key: attribute.value.string_value for attribute in attributes}


def _spans(request: ExportTraceServiceRequest) -> list[Span]:
    return [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]
