"""One message for Kafka, as a program passes it, and as the table stores it."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import orjson

from workorders.core.items import Headers, header_pairs
from workorders.core.json_bytes import text_or_base64
from workorders.core.json_text import dumps
from workorders.outbox.exceptions import OutboxMessageError

_NUL: Final = "\0"


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


def key_bytes(message: OutboxMessage) -> bytes | None:
    """Return the key as it is sent.

    Raises:
        OutboxMessageError: it is neither bytes, str nor None.
    """
    match message.key:
        case None | bytes():
            return message.key
        case str():
            return message.key.encode()
        case _:
            raise _refused(message, f"its key is {type(message.key).__name__} and not bytes, str or None")


def value_bytes(message: OutboxMessage) -> bytes | None:
    """Return the value as it is sent.

    Raises:
        OutboxMessageError: it is neither bytes, str, None nor JSON.
    """
    match message.value:
        case None | bytes():
            return message.value
        case str():
            return message.value.encode()
        case _:
            try:
                return dumps(message.value)
            except (TypeError, ValueError) as error:
                raise _refused(message, f"its value is not JSON: {error}") from error


def headers_json(message: OutboxMessage) -> str | None:
    """Return the headers in the form of the table's column: pairs, with bytes that jsonb cannot hold as base64.

    Raises:
        OutboxMessageError: a name is no str, or a value neither bytes, str nor None.
        TypeError: they are neither a mapping nor pairs.
    """
    pairs = [[_name(message, name), _header_value(message, value)] for name, value in header_pairs(message.headers)]
    return orjson.dumps(pairs).decode() if pairs else None


def _name(message: OutboxMessage, name: object) -> str:
    if not isinstance(name, str) or _NUL in name:
        raise _refused(message, f"the header name {name!r} is no text that Postgres can hold")
    return name


def _header_value(message: OutboxMessage, value: object) -> str | dict[str, str] | None:
    match value:
        case None:
            return None
        case str():
            return value if _NUL not in value else text_or_base64(value.encode())
        case bytes():
            return text_or_base64(value)
        case _:
            raise _refused(message, f"a header's value is {type(value).__name__} and not bytes, str or None")


def _refused(message: OutboxMessage, fault: str) -> OutboxMessageError:
    return OutboxMessageError(f"A message for topic {message.topic} cannot be sent: {fault}; nothing was enqueued.")
