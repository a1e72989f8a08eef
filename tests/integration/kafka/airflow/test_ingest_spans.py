"""The spans of a batch: in the senders' traces, and linked to the attempt."""

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from local_stack.stack import LocalStack
from support.in_process_trigger import InProcessTrigger
from support.spans import PARENT, TRACE
from support.topics import Topics
from workorders.kafka.airflow import ingest_spans
from workorders.kafka.ledger.attempt_lock import attempt_lock

pytestmark = pytest.mark.integration


def test_a_message_gets_a_span_in_its_senders_trace_with_its_offset_and_a_link_to_the_attempt(
    stack: LocalStack, topics: Topics, spans: InMemorySpanExporter, name: str
) -> None:
    topics.create(name)
    topics.produce(name, [b"{}"])
    topics.produce(name, [b"{}"], headers=[("TraceParent", f"00-{TRACE}-{PARENT}-01".encode())])
    trigger = InProcessTrigger(stack, name)
    batch_id = trigger.plan().batch_id
    assert batch_id is not None
    with attempt_lock(stack.database_url, batch_id) as lock:
        trigger.ingest_messages(batch_id, by_column=True)
        ingest_spans.record(lock, name, batch_id)
    created, attempt = spans.get_finished_spans()
    assert (created.name, attempt.name) == (f"create {name}", f"ingest {name}")
    assert created.parent is not None
    assert (f"{created.context.trace_id:032x}", f"{created.parent.span_id:016x}") == (TRACE, PARENT)
    assert [link.context.span_id for link in created.links] == [attempt.context.span_id]
    found = dict(created.attributes or {})
    assert (found["messaging.destination.name"], found["messaging.kafka.offset"]) == (name, 1)
    assert dict(attempt.attributes or {})["workorders.batch.id"] == batch_id
    assert attempt.end_time is not None
    assert attempt.start_time is not None
    assert 0 < attempt.end_time - attempt.start_time < 600 * 10**9
