"""One trace from the span of a producer to a message that a run published, over every part in between."""

from collections import Counter
from types import SimpleNamespace
from typing import cast

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from local_stack.stack import LocalStack
from support.consumed import consumed
from support.executing import Executing
from support.in_process_trigger import InProcessTrigger
from support.outbox import Outbox, new_outbox
from support.spans import PARENT, TRACE, ids_of, parent_of
from support.topics import Topics
from workorders.outbox.enqueue import enqueue_published

pytestmark = pytest.mark.integration

ANOTHER = "c" * 32


def ingest(outbox: Outbox, name: str) -> None:
    """Create the work orders of the topic's messages, as the task does."""
    parts = SimpleNamespace(database_url=outbox.database_url, kafka_settings=outbox.kafka)
    trigger = InProcessTrigger(cast("LocalStack", parts), f"{name}-in", topics=[name], workflow=name)
    batch_id = trigger.plan().batch_id
    assert batch_id is not None
    with trigger.begun(batch_id):
        trigger.ingest_messages(batch_id)


def test_one_trace_leads_from_the_producers_span_over_its_run_to_what_is_published(
    stack: LocalStack, topics: Topics, spans: InMemorySpanExporter, name: str
) -> None:
    out = topics.create(f"{name}.out")
    topics.create(name)
    for trace in (TRACE, ANOTHER):  # a batch has messages of many traces
        body = b'{"do": "publish", "to": "%s"}' % out.encode()
        topics.produce(name, [body], headers=[("traceparent", f"00-{trace}-{PARENT}-01".encode())])
    outbox = new_outbox(stack)
    work = Executing(outbox.database_url, name)
    ingest(outbox, name)
    work.worker(enqueue=enqueue_published).work()
    assert outbox.relay().messages == 4

    found = spans.get_finished_spans()
    run, *sent = (span for span in found if ids_of(span)[0] == TRACE)
    assert [span.name for span in (run, *sent)] == [f"run {name}", *[f"send {out}"] * 2]
    assert parent_of(run) == PARENT
    assert {parent_of(span) for span in sent} == {ids_of(run)[1]}
    published = [dict(message.headers() or []).get("traceparent") for message in consumed(outbox.kafka, out)]
    (other,) = (span for span in found if span.name == run.name and span is not run)
    assert Counter(published) == {f"00-{'-'.join(ids_of(span))}-01".encode(): 2 for span in (run, other)}
    assert ids_of(other)[0] == ANOTHER
