"""One message for Kafka, as a program passes it."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from workorders.core.items import Headers, Message, encode_message, header_pairs
from workorders.outbox.exceptions import OutboxMessageError


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxMessage:
    """A message for a Kafka topic.

    Key and value are bytes, or str that is sent as UTF-8; a value may also be anything that is JSON (dict, list,
    number, bool). A value of None is a tombstone: a message whose value is null.
    """

    topic: str
    value: Any
    key: bytes | str | None = None
    #: A mapping, or pairs in the order in which consumers see them; a name may come several times.
    headers: Headers = ()
    #: Chosen by the key, as Java's clients do it, unless given.
    partition: int | None = None
    #: Unix time in milliseconds, more than 0; the time of sending unless given.
    timestamp_ms: int | None = None
    #: Identifies the event for consumers; generated unless given.
    event_id: UUID | None = None


def encoded(message: OutboxMessage) -> Message:
    """Return a message as it is sent.

    Raises:
        OutboxMessageError: a part of it has no form in which it can be sent.
        TypeError: the headers are neither a mapping nor pairs.
    """
    headers = header_pairs(message.headers)
    try:
        return encode_message(
            message.topic,
            message.value,
            key=message.key,
            headers=headers,
            partition=message.partition,
            timestamp_ms=message.timestamp_ms,
            event_id=message.event_id,
        )
    except (TypeError, ValueError) as error:
        raise OutboxMessageError(
            f"A message for topic {message.topic} cannot be sent: {error}; nothing was enqueued."
        ) from error
