"""A collector of OpenTelemetry gets one trace of a message, and the metrics, from the real Airflow."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from local_stack.stack import LocalStack
from support.consumed import consumed
from support.definition_files import write_definitions
from support.eventually import eventually
from support.flow import SECONDS
from support.otlp_collector import OtlpCollector
from support.spans import PARENT, TRACE
from support.topics import Topics

pytestmark = pytest.mark.long

NAME = "traced"
TOPIC = f"scenario.{NAME}"


@pytest.fixture
def collector() -> Iterator[OtlpCollector]:
    with OtlpCollector() as running:
        yield running


@pytest.fixture
def stack(tmp_path: Path, collector: OtlpCollector) -> Iterator[LocalStack]:
    """Airflow whose traces and metrics go to the collector, as the page about traces sets it."""
    trigger = {"name": NAME, "type": "kafka", "workflow": NAME, "topics": [TOPIC]}
    workflow = {"name": NAME, "callable": "support.run_functions:behave"}
    with LocalStack(
        airflow=True,
        triggers_folder=write_definitions(tmp_path / "triggers", trigger),
        workflows_folder=write_definitions(tmp_path / "workflows", workflow),
        environment={
            "AIRFLOW__TRACES__OTEL_ON": "True",
            "AIRFLOW__METRICS__OTEL_ON": "True",
            "OTEL_TRACES_EXPORTER": "otlp_proto_http",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_METRIC_EXPORT_INTERVAL": "5000",
        },
        name="telemetry",
    ) as running:
        yield running


def test_one_trace_leads_through_airflow_from_the_producer_to_what_is_published_and_the_metrics_come_too(
    stack: LocalStack, collector: OtlpCollector
) -> None:
    topics = Topics(stack.kafka_settings)
    out = topics.create(f"scenario.{uuid4().hex[:8]}")
    topics.create(TOPIC)
    body = b'{"do": "publish", "to": "%s"}' % out.encode()
    topics.produce(TOPIC, [body], headers=[("traceparent", f"00-{TRACE}-{PARENT}-01".encode())])

    def of_trace() -> dict[str, Span]:
        return {span.name: span for span in list(collector.spans) if span.trace_id.hex() == TRACE}

    wanted = {f"run {NAME}", f"send {out}"}
    eventually(lambda: wanted <= of_trace().keys(), seconds=SECONDS, what=f"spans {wanted}")
    eventually(
        lambda: any(tags.get("trigger") == NAME for _, tags in collector.values("airflow.workorders.ingest.lag")),
        seconds=SECONDS,
        what="the lag of the trigger",
    )

    found = of_trace()
    assert found.keys() == wanted
    run_id = found[f"run {NAME}"].span_id.hex()
    parents = {name: span.parent_span_id.hex() for name, span in found.items()}
    assert parents == {f"run {NAME}": PARENT, f"send {out}": run_id}
    headers = [dict(message.headers() or []) for message in consumed(stack.kafka_settings, out)]
    assert {header["traceparent"] for header in headers} == {f"00-{TRACE}-{run_id}-01".encode()}
