"""The spans of a batch: in the senders' traces, and linked to the attempt."""

import logging

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from local_stack.stack import LocalStack
from support.in_process_trigger import InProcessTrigger
from support.spans import PARENT, TRACE, ids_of, parent_of
from support.topics import Topics
from workorders.kafka.airflow import ingest_spans
from workorders.kafka.exceptions import StalledError

pytestmark = pytest.mark.integration

log = logging.getLogger(__name__)


@pytest.fixture
def trigger(stack: LocalStack, topics: Topics, name: str) -> InProcessTrigger:
    """A trigger with two messages, of which the second has a trace."""
    topics.create(name)
    topics.produce(name, [b"{}"])
    topics.produce(name, [b"{}"], headers=[("TraceParent", f"00-{TRACE}-{PARENT}-01".encode())])
    return InProcessTrigger(stack, name)


def attempt(trigger: InProcessTrigger, error: Exception | None = None) -> int:
    """Plan a batch, ingest it, raise the error if there is one, and return the number of the batch."""
    batch_id = trigger.batch()
    with trigger.begun(batch_id) as attempt, ingest_spans.of_attempt(attempt, log):
        trigger.ingest_messages(batch_id)
        if error is not None:
            raise error
    return batch_id


def test_a_message_gets_a_span_in_its_senders_trace_with_its_offset_and_the_attempt_links_to_both(
    trigger: InProcessTrigger, spans: InMemorySpanExporter, name: str
) -> None:
    batch_id = attempt(trigger)
    created, ingest = spans.get_finished_spans()
    assert (created.name, ingest.name) == (f"create {name}", f"ingest {name}")
    assert (ids_of(created)[0], parent_of(created)) == (TRACE, PARENT)
    assert [link.context.span_id for link in created.links] == [ingest.context.span_id]
    assert [f"{link.context.span_id:016x}" for link in ingest.links] == [PARENT]
    found = dict(created.attributes or {})
    assert (found["messaging.destination.name"], found["messaging.kafka.offset"]) == (name, 1)
    found = dict(ingest.attributes or {})
    assert (found["workorders.batch.id"], found["workorders.batch.ranges"]) == (batch_id, (f"{name} 0 [0, 2)",))
    assert ingest.status.is_unset
    assert ingest.end_time is not None
    assert ingest.start_time is not None
    assert 0 < ingest.end_time - ingest.start_time < 600 * 10**9


def test_an_attempt_that_fails_has_the_spans_of_what_it_created_and_not_the_text_of_its_error(
    trigger: InProcessTrigger, spans: InMemorySpanExporter, name: str
) -> None:
    with pytest.raises(StalledError):
        attempt(trigger, StalledError("orders 1: the value 17 is refused"))
    created, ingest = spans.get_finished_spans()
    assert (created.name, ingest.name) == (f"create {name}", f"ingest {name}")
    assert (ingest.status.status_code, ingest.status.description) == (StatusCode.ERROR, "StalledError")


def test_an_attempt_whose_spans_cannot_be_recorded_ends_as_it_would_without_them(
    trigger: InProcessTrigger, spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    with trigger.begun(trigger.batch()) as attempt, ingest_spans.of_attempt(attempt, log):
        attempt.database.close()
    assert spans.get_finished_spans() == ()
    assert "No span was sent: " in caplog.text
