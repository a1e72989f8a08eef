"""Spans of a batch: one for the attempt, and one in the trace of each of its first messages."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from workorders.airflow.notifications import Log
from workorders.airflow.task_errors import EXPECTED_FAILURES, reason
from workorders.core import tracing
from workorders.core.postgres.connection import fetch_row
from workorders.core.trace_headers import first_header_values
from workorders.kafka.ingest.ingest_attempt import IngestAttempt
from workorders.kafka.ledger import batches

MAX_MESSAGES: Final = 100
"""Messages of a batch that are searched for traces. A batch may have a million, and a trace shows the path of one."""


@contextmanager
def of_attempt(attempt: IngestAttempt, log: Log) -> Iterator[None]:
    """Record the spans of an attempt when the context ends: also of one that fails, which may have created work orders.

    The span of the attempt belongs to the trace of the Airflow task. It links to the senders' spans, and the messages'
    spans link to it: a span has one parent, and a batch has many senders. A failure to record them is logged, and does
    not fail the attempt.
    """
    if not tracing.is_on():
        yield
        return
    begun, failure = _now(attempt), None
    try:
        yield
    except Exception as error:
        failure = type(error).__name__
        raise
    finally:
        try:
            _record(attempt, begun, failure)
        except EXPECTED_FAILURES as error:
            log.warning("No span was sent: %s", reason(error))


def _now(attempt: IngestAttempt) -> datetime:
    """Return the database's time: its clock is the one of what was created."""
    now: datetime = fetch_row(attempt.database, "SELECT clock_timestamp()", {})[0]
    return now


def _record(attempted: IngestAttempt, begun_at: datetime, failure: str | None) -> None:
    from opentelemetry.trace import Link, SpanKind  # noqa: PLC0415 - an optional extra

    batch, trigger = attempted.ended or attempted.batch, attempted.batch.trigger.name
    begun, ended = (round(time.timestamp() * 1_000_000) * 1000 for time in (begun_at, _now(attempted)))
    messages = batches.first_messages_since(attempted.database, batch.id, begun_at, limit=MAX_MESSAGES)
    senders = [tracing.sent_context(first_header_values(message.request, tracing.HEADERS)) for message in messages]
    attempt = tracing.tracer().start_span(
        f"ingest {trigger}",
        kind=SpanKind.CONSUMER,
        start_time=begun,
        links=[Link(tracing.span_in(sender)) for sender in senders],
        attributes={
            "messaging.system": "kafka",
            "workorders.trigger": trigger,
            "workorders.batch.id": batch.id,
            "workorders.batch.ranges": [str(range_.range) for range_ in batch.ranges],
        },
    )
    for message, sender in zip(messages, senders, strict=True):
        span = tracing.tracer().start_span(
            f"create {trigger}",
            sender,
            kind=SpanKind.CONSUMER,
            start_time=begun,
            links=[Link(attempt.get_span_context())],
            attributes={
                "messaging.system": "kafka",
                "messaging.destination.name": message.topic,
                "messaging.destination.partition.id": str(message.partition),
                "messaging.kafka.offset": message.offset,
                "workorders.work_order.id": str(message.work_order_id),
                "workorders.batch.id": batch.id,
            },
        )
        span.end(ended)
    if failure is not None:
        # Without the text of the error, which may quote a message.
        tracing.fail(attempt, failure)
    attempt.end(ended)
