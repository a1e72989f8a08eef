"""Spans of sent messages: each belongs to the trace that the message carries in its headers."""

from collections.abc import Sequence
from itertools import islice
from operator import itemgetter
from typing import Final

from workorders.core import tracing
from workorders.core.trace_headers import first_header_values
from workorders.outbox.store.backlog import ROW_HEADERS, OutboxRow, Row

MAX_MESSAGES: Final = 100
"""Messages with headers that are searched for traces, per batch. A batch may have thousands; a trace shows one."""


def record(rows: Sequence[Row], *, shard: int, batch: int, begun: int) -> None:
    """Record the spans of the first messages of a batch, which Kafka has just committed.

    `begun` is when the relay began to send it, in nanoseconds of Unix time.
    """
    if not tracing.is_on():
        return
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - an optional extra

    for row in map(OutboxRow._make, islice(filter(itemgetter(ROW_HEADERS), rows), MAX_MESSAGES)):
        headers = first_header_values({"headers": row.headers}, tracing.HEADERS)
        if "traceparent" not in headers:
            continue
        span = tracing.tracer().start_span(
            f"send {row.topic}",
            tracing.sent_context(headers),
            # The message has the context of what made it, so the next consumer continues there and not here.
            kind=SpanKind.CLIENT,
            start_time=begun,
            attributes={
                "messaging.system": "kafka",
                "messaging.destination.name": row.topic,
                "workorders.outbox.message.id": row.id,
                "workorders.outbox.shard": shard,
                "workorders.outbox.batch": batch,
            },
        )
        span.end()
