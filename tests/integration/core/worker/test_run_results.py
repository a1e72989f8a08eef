"""One trace from the sender's span over the run to what it publishes, on a real database with real processes."""

import json

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from local_stack.stack import LocalStack
from support.executing import Executing
from support.spans import PARENT, TRACE, ids_of, parent_of
from workorders.core import tracing, triggers
from workorders.core.creation.work_orders import create_for
from workorders.core.items import Item
from workorders.core.postgres.connection import connect

pytestmark = pytest.mark.integration


def run(stack: LocalStack, name: str, *bodies: object, flags: str = "01") -> Executing:
    """Execute work orders whose request has the sender's traceparent, at positions 7, 8, ... of a stream."""
    work = Executing(stack.database_url, name)
    request = json.dumps({"headers": [["traceparent", f"00-{TRACE}-{PARENT}-{flags}"]]}).encode()
    with connect(stack.database_url) as connection:
        items = [Item(name, 7 + place, request, json.dumps(body).encode()) for place, body in enumerate(bodies)]
        create_for(connection, triggers.find(connection, name), items)
    work.worker().work()
    return work


def test_a_run_is_a_span_of_the_senders_trace_and_what_it_publishes_continues_it(
    stack: LocalStack, spans: InMemorySpanExporter, name: str
) -> None:
    work = run(stack, name, {"do": "publish"})
    (span,) = spans.get_finished_spans()
    trace_id, span_id = ids_of(span)
    assert (trace_id, parent_of(span)) == (TRACE, PARENT)
    assert span.name == f"run {name}"
    found = dict(span.attributes or {})
    assert (found["workorders.stream"], found["workorders.position"]) == (name, 7)
    assert (found["workorders.run.state"], found["workorders.run.attempt"]) == ("success", 1)
    sent = {dict(message.headers).get("traceparent") for message in work.sent}
    assert sent == {f"00-{TRACE}-{span_id}-01".encode()}


def test_a_failure_is_one_without_the_text_of_its_error(
    stack: LocalStack, spans: InMemorySpanExporter, name: str
) -> None:
    run(stack, name, {"do": "fail"}, {"do": "exit process"})
    failed, crashed = spans.get_finished_spans()
    assert failed.status.status_code is crashed.status.status_code is StatusCode.ERROR
    assert " " not in (failed.status.description or "")
    assert dict(crashed.attributes or {})["workorders.run.state"] == "crashed"


def test_a_trace_that_the_sender_did_not_sample_has_no_span_and_its_id_goes_on(
    stack: LocalStack, spans: InMemorySpanExporter, name: str
) -> None:
    work = run(stack, name, {"do": "publish"}, flags="00")
    assert spans.get_finished_spans() == ()
    headers = {dict(message.headers).get("traceparent") or b"" for message in work.sent}
    assert {header[:35] for header in headers} == {f"00-{TRACE}".encode()}


def test_without_a_provider_no_span_is_made() -> None:
    assert not tracing.is_on()
