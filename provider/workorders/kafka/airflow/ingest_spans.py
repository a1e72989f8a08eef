"""Spans of a batch: one for the attempt, and one in the trace of each of its first messages."""

from typing import Any, Final

from workorders.core import tracing
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries
from workorders.core.worker.context import first_header_values
from workorders.kafka.ledger.batches import Batch

_QUERIES = load_queries("workorders.kafka.airflow", "sql/ingest_spans.sql")

MAX_MESSAGES: Final = 100
"""Messages of a batch whose traces get a span. A batch may have a million, and a trace shows the path of one."""
_HEADERS: Final = ("traceparent", "tracestate")


def record(lock: Connection, batch: Batch, trigger: str) -> None:
    """Record the spans of an attempt that has just ended well.

    The span of the attempt belongs to the trace of the Airflow task, and the messages' spans link to it: a span has one
    parent, and a batch has many senders.

    Args:
        lock: the connection with the attempt's lock, whose transaction began with the attempt.
        batch: as it was when the attempt began.
        trigger: name of the trigger.
    """
    if not tracing.is_on():
        return
    from opentelemetry.trace import Link, SpanKind  # noqa: PLC0415 - an optional extra

    begun, ended = fetch_row(lock, _QUERIES["times"], {})
    attempt = tracing.tracer().start_span(
        f"ingest {trigger}", kind=SpanKind.CONSUMER, start_time=begun, attributes=_attributes(batch, trigger)
    )
    messages = lock.execute(_QUERIES["messages"], {"batch_id": batch.id, "limit": MAX_MESSAGES}).fetchall()
    for id_, topic, partition, offset, request in messages:
        span = tracing.tracer().start_span(
            f"create {trigger}",
            tracing.sent_context(first_header_values(request, _HEADERS)),
            kind=SpanKind.CONSUMER,
            start_time=begun,
            links=[Link(attempt.get_span_context())],
            attributes={
                "messaging.system": "kafka",
                "messaging.destination.name": topic,
                "messaging.destination.partition.id": str(partition),
                "messaging.kafka.offset": offset,
                "workorders.work_order.id": str(id_),
                "workorders.batch.id": batch.id,
            },
        )
        span.end(ended)
    attempt.end(ended)


def _attributes(batch: Batch, trigger: str) -> dict[str, Any]:
    return {
        "messaging.system": "kafka",
        "workorders.trigger": trigger,
        "workorders.batch.id": batch.id,
        "workorders.batch.ranges": [str(part.range) for part in batch.ranges],
    }
