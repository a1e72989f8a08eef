"""Puts messages into the outbox, inside the caller's transaction."""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson
import psycopg

from workorders.core.exceptions import KeysBusyError
from workorders.core.ids import increasing_ids
from workorders.core.items import Headers, Message, encode_message, header_pairs
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.exceptions import OutboxMessageError

if TYPE_CHECKING:
    from sqlalchemy import Connection as SqlalchemyConnection
    from sqlalchemy.orm import Session, scoped_session

    from workorders.core.postgres.connection import Connection

    Caller = psycopg.Connection[Any] | SqlalchemyConnection | Session | scoped_session[Session]

_QUERIES = load_queries("workorders.outbox", "sql/enqueue.sql")
_REFUSALS = frozenset({psycopg.errors.InvalidParameterValue.sqlstate, psycopg.errors.NumericValueOutOfRange.sqlstate})


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


def enqueue(connection: "Caller", messages: OutboxMessage | Iterable[OutboxMessage]) -> list[UUID]:
    """Put messages into the outbox: they are sent once the caller's transaction has committed, and never if it has not.

    Commits nothing. Writers of the same key of a topic wait for one another until their transactions end, so that
    messages of a key are sent in the order of the commits.

    Args:
        connection: a psycopg connection, a SQLAlchemy connection or a SQLAlchemy session, with its transaction.
        messages: one message or several, in the order in which they are sent.

    Returns:
        The event ids, in the order of the messages.

    Raises:
        OutboxMessageError: one of them could never be sent: its type, topic name, size, partition or timestamp. Where
            the database found it, the transaction can only be rolled back.
        TypeError: the connection is of another type, such as an asynchronous one, or the headers are neither pairs nor
            a mapping; nothing was enqueued.
    """
    _require_known(connection)
    given = [messages] if isinstance(messages, OutboxMessage) else list(messages)
    if not given:
        return []
    arguments = _arguments([_encoded(message) for message in given])
    _execute(connection, arguments)
    return list(arguments["event_ids"])


def publish(
    connection: "Caller",
    topic: str,
    value: Any,
    *,
    key: bytes | str | None = None,
    headers: Headers = (),
    partition: int | None = None,
    timestamp_ms: int | None = None,
    event_id: UUID | None = None,
) -> UUID:
    """Put one message into the outbox and return its event id: `enqueue` for a program that sends one at a time.

    `OutboxMessage` describes the arguments.

    Raises:
        OutboxMessageError: the message could never be sent; nothing was enqueued.
        TypeError: the connection or the headers are of another type; nothing was enqueued.
    """
    message = OutboxMessage(
        topic=topic,
        value=value,
        key=key,
        headers=headers,
        partition=partition,
        timestamp_ms=timestamp_ms,
        event_id=event_id,
    )
    return enqueue(connection, message)[0]


def enqueue_published(connection: "Connection", messages: Sequence[Message]) -> None:
    """Put messages that runs have published into the outbox, in the transaction that records the success of the runs.

    Which run published which message is recorded; see `published`.

    Raises:
        KeysBusyError: another transaction has written to the keys of some runs and has not ended.
        OutboxMessageError: one of them could never be sent.
    """
    run_ids = [message.run_id for message in messages]
    arguments = {**_arguments(messages), "run_ids": run_ids}
    busy = connection.execute(_QUERIES["lock_or_find_busy"], arguments).fetchall()
    if busy:
        raise KeysBusyError(run_id for (run_id,) in busy)
    (ids,) = _execute(connection, arguments).fetchone()
    connection.execute(_QUERIES["note_published"], {**arguments, "ids": ids})


def _encoded(message: OutboxMessage) -> Message:
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


def _arguments(messages: Sequence[Message]) -> dict[str, Sequence[Any]]:
    ids = increasing_ids()
    headers = [message.json_headers for message in messages]
    return {
        "topics": [message.to for message in messages],
        "keys": [message.key for message in messages],
        "values": [message.value for message in messages],
        "headers": [orjson.dumps(pairs).decode() if pairs else None for pairs in headers],
        "partitions": [message.partition for message in messages],
        "timestamps": [message.timestamp_ms for message in messages],
        "event_ids": [UUID(message.event_id) if message.event_id else UUID(bytes=next(ids)) for message in messages],
    }


def _require_known(connection: object) -> None:
    """Refuse a connection of another type than the statement is executed on."""
    if isinstance(connection, psycopg.Connection):
        return
    if "sqlalchemy" in sys.modules:  # otherwise it is no object of SQLAlchemy, whose import takes half a second
        from sqlalchemy import Connection as SqlalchemyConnection  # noqa: PLC0415
        from sqlalchemy.orm import Session, scoped_session  # noqa: PLC0415

        if isinstance(connection, SqlalchemyConnection | Session | scoped_session):
            return
    kind = type(connection)
    raise TypeError(
        f"The outbox cannot use a connection of the type {kind.__module__}.{kind.__qualname__}; nothing was enqueued. "
        "Give a psycopg.Connection, or a Connection, Session, or scoped_session of SQLAlchemy; from an AsyncSession or "
        "AsyncConnection of SQLAlchemy, `await session.run_sync(workorders.publish, topic, value)`."
    )


def _execute(connection: "Caller", arguments: Mapping[str, Sequence[Any]]) -> Any:
    """Enqueue messages; the result has one row, with the array of their ids."""
    try:
        if isinstance(connection, psycopg.Connection):
            return connection.execute(_QUERIES["enqueue"], arguments)
        from sqlalchemy import text  # noqa: PLC0415 - half a second that programs without SQLAlchemy need not wait

        return connection.execute(text(re.sub(r"%\((\w+)\)s", r":\1", _QUERIES["enqueue"])), dict(arguments))
    except Exception as error:
        found = getattr(error, "orig", error)  # SQLAlchemy wraps the error of its driver
        if getattr(found, "sqlstate", getattr(found, "pgcode", None)) in _REFUSALS:
            diagnosis = getattr(found, "diag", None)
            raise OutboxMessageError(getattr(diagnosis, "message_primary", None) or str(found)) from error
        raise
