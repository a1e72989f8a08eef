"""Spans of a batch: one for the attempt, and one in the trace of each of its first messages."""

from typing import Final

from workorders.core import tracing
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.worker.context import first_header_values
from workorders.kafka.ledger import batches

MAX_MESSAGES: Final = 100
"""Messages of a batch that are searched for traces. A batch may have a million, and a trace shows the path of one."""
_HEADERS: Final = ("traceparent", "tracestate")
_TIMES: Final = """
SELECT (extract(epoch FROM now()) * 1000000)::bigint * 1000,
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000
"""
"""Of the attempt, in nanoseconds."""


def record(lock: Connection, trigger: str, batch_id: int) -> None:
    """Record the spans of an attempt that has just ended well.

    The span of the attempt belongs to the trace of the Airflow task, and the messages' spans link to it: a span has one
    parent, and a batch has many senders.

    Args:
        lock: the connection with the attempt's lock, whose transaction began with the attempt.
        trigger: name of the trigger.
        batch_id: number of the batch.
    """
    if not tracing.is_on():
        return
    from opentelemetry.trace import Link, SpanKind  # noqa: PLC0415 - an optional extra

    begun, ended = fetch_row(lock, _TIMES, {})
    attempt = tracing.tracer().start_span(
        f"ingest {trigger}",
        kind=SpanKind.CONSUMER,
        start_time=begun,
        attributes={"messaging.system": "kafka", "workorders.trigger": trigger, "workorders.batch.id": batch_id},
    )
    for message in batches.first_messages_of_attempt(lock, trigger, batch_id, limit=MAX_MESSAGES):
        span = tracing.tracer().start_span(
            f"create {trigger}",
            tracing.sent_context(first_header_values(message.request, _HEADERS)),
            kind=SpanKind.CONSUMER,
            start_time=begun,
            links=[Link(attempt.get_span_context())],
            attributes={
                "messaging.system": "kafka",
                "messaging.destination.name": message.topic,
                "messaging.destination.partition.id": str(message.partition),
                "messaging.kafka.offset": message.offset,
                "workorders.work_order.id": str(message.work_order_id),
                "workorders.batch.id": batch_id,
            },
        )
        span.end(ended)
    attempt.end(ended)
