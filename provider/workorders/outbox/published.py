"""Puts what the functions of workflows have published into the outbox."""

from collections.abc import Sequence
from uuid import UUID

from workorders.core.postgres.connection import Connection
from workorders.core.worker.model import Message
from workorders.outbox.enqueue import enqueue
from workorders.outbox.message import OutboxMessage


def enqueue_published(connection: Connection, messages: Sequence[Message]) -> None:
    """Put messages into the outbox, in the transaction that records the success of their runs.

    Raises:
        OutboxMessageError: one of them could never be sent.
    """
    enqueue(connection, [_outbox_message(message) for message in messages])


def _outbox_message(message: Message) -> OutboxMessage:
    return OutboxMessage(
        topic=message.to,
        value=message.value,
        key=message.key,
        headers=message.headers,
        partition=message.partition,
        timestamp_ms=message.timestamp_ms,
        event_id=None if message.event_id is None else UUID(message.event_id),
    )
