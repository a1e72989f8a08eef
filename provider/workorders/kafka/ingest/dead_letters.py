"""Dead letters: messages that cannot be inputs, published again to a topic with the headers of Kafka Connect.

They are enqueued in the transaction that rejects them, so each is published once: an attempt that is rolled back
enqueues nothing, and a replay enqueues nothing because the ingest that finished its range has.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import orjson
from psycopg.rows import class_row

from workorders.core.admission import pipeline
from workorders.core.creation.work_orders import Created
from workorders.core.items import header_pairs
from workorders.core.json_bytes import bytes_of
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.kafka.ingest.attempt import Attempt
from workorders.outbox.enqueue import OutboxMessage, enqueue
from workorders.outbox.exceptions import OutboxMessageError

_QUERIES = load_queries("workorders.kafka.ingest", "sql/dead_letters.sql")

_PREFIX: Final = "__connect.errors."
_FETCH: Final = 16
"""Rows in memory next to those of a chunk; each may have as many bytes as the largest message."""
_CHUNK_MESSAGES: Final = 500
_CHUNK_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Rejected:
    id: UUID
    raw: bytes | None
    request: str
    code: str
    detail: str


def publish(connection: Connection, attempt: Attempt, created: Created) -> None:
    """Enqueue the dead letters of an attempt, at the end of its transaction.

    Raises:
        OutboxMessageError: the outbox sends nothing to the topic.
    """
    if attempt.dead_letter_topic is None or created.rejected == created.rejected_by_rule:
        return
    range_ = attempt.range
    arguments = {
        "trigger_id": attempt.trigger.id,
        "stream": attempt.stream,
        "start_offset": range_.start,
        "end_offset": range_.end,
        "by_rules": pipeline.REASONS,  # a rerun takes these as they are, so they are no dead letters
        "topic": attempt.dead_letter_topic,
    }
    with connection.cursor("dead_letters", row_factory=class_row(_Rejected)) as cursor:
        cursor.itersize = _FETCH
        rows = cursor.execute(_QUERIES["rejected"], arguments)
        for chunk in _chunks(dead_letter(attempt, attempt.dead_letter_topic, row) for row in rows):
            _enqueue(connection, chunk)


def dead_letter(attempt: Attempt, topic: str, rejected: _Rejected) -> OutboxMessage:
    """Return the message of a rejected one: its key, value, time, and headers, and why it was rejected.

    The headers are those of the request. The event id is that of the work order.
    """
    request: dict[str, Any] = orjson.loads(rejected.request)
    facts = {
        "topic": request["topic"],
        "partition": request["partition"],
        "offset": request["offset"],
        "connector.name": attempt.trigger.name,
        "task.id": attempt.batch_id,
        "stage": "KEY_CONVERTER" if "the key" in rejected.detail else "VALUE_CONVERTER",
        "class.name": "workorders",
        "exception.class.name": rejected.code,
        "exception.message": rejected.detail,
    }
    errors = {f"{_PREFIX}{name}": str(value).encode() for name, value in facts.items()}
    own = [(name, bytes_of(value)) for name, value in request["headers"] if isinstance(name, str)]
    for name, _ in own:
        errors.pop(name, None)
    timestamp = request.get("timestamp")
    return OutboxMessage(
        topic=topic,
        value=rejected.raw,
        key=bytes_of(request["key"]),
        headers=[*own, *errors.items()],
        timestamp_ms=timestamp if timestamp is not None and timestamp > 0 else None,
        event_id=rejected.id,
    )


def _chunks(messages: Iterator[OutboxMessage]) -> Iterator[list[OutboxMessage]]:
    chunk: list[OutboxMessage] = []
    size = 0
    for message in messages:
        chunk.append(message)
        size += len(message.value or b"")
        if len(chunk) == _CHUNK_MESSAGES or size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _enqueue(connection: Connection, messages: Sequence[OutboxMessage]) -> None:
    """Enqueue messages; one that the outbox does not take, as because of its size, goes with the reason alone."""
    try:
        with connection.transaction():
            enqueue(connection, messages)
    except OutboxMessageError:
        if len(messages) > 1:
            for message in messages:
                _enqueue(connection, [message])
            return
        reason = [(name, value) for name, value in header_pairs(messages[0].headers) if name.startswith(_PREFIX)]
        enqueue(connection, replace(messages[0], key=None, value=None, headers=reason))
