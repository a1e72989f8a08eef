"""The spans of what a relay has sent, without a broker."""

from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from support.spans import PARENT, TRACE, ids_of, parent_of
from workorders.outbox.relay.shard import MAX_TRACED_MESSAGES, record_spans
from workorders.outbox.store.backlog import OutboxRow

SAMPLED, NOT_SAMPLED = (f"00-{TRACE}-{PARENT}-{flags}" for flags in ("01", "00"))
BEGUN = 1_700_000_000_000_000_000


def row(id_: int, *headers: list[Any], topic: str = "orders") -> OutboxRow:
    return OutboxRow(id_, topic, None, b"{}", list(headers) or None, None, None, None, 0)


def recorded(spans: InMemorySpanExporter, *rows: OutboxRow) -> tuple[ReadableSpan, ...]:
    record_spans(rows, shard=3, batch=17, begun=BEGUN)
    return spans.get_finished_spans()


def test_a_message_gets_a_span_in_the_trace_that_it_carries(spans: InMemorySpanExporter) -> None:
    found = recorded(spans, row(1, ["a", "b"], ["TraceParent", SAMPLED]), row(2, ["traceparent", SAMPLED], topic="x"))
    assert [(span.name, ids_of(span)[0], parent_of(span)) for span in found] == [
        ("send orders", TRACE, PARENT),
        ("send x", TRACE, PARENT),
    ]
    assert dict(found[0].attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.destination.name": "orders",
        "workorders.outbox.message.id": 1,
        "workorders.outbox.shard": 3,
        "workorders.outbox.batch": 17,
    }
    assert found[0].start_time == BEGUN


def test_a_message_without_a_sampled_trace_gets_none(spans: InMemorySpanExporter) -> None:
    assert recorded(spans, row(1), row(2, ["a", None]), row(3, ["traceparent", NOT_SAMPLED])) == ()


def test_only_the_first_messages_with_headers_are_searched(spans: InMemorySpanExporter) -> None:
    plain = [row(number) for number in range(MAX_TRACED_MESSAGES)]
    traced = [row(1000 + number, ["traceparent", SAMPLED]) for number in range(MAX_TRACED_MESSAGES + 1)]
    assert len(recorded(spans, *plain, *traced)) == MAX_TRACED_MESSAGES


def test_without_a_provider_no_row_is_looked_at() -> None:
    rows: Any = None
    record_spans(rows, shard=0, batch=1, begun=BEGUN)
