"""Messages for Kafka that commit with a Postgres transaction; the relay sends them."""

from workorders.outbox.enqueue import enqueue, publish
from workorders.outbox.exceptions import OutboxMessageError
from workorders.outbox.message import OutboxMessage

__all__ = ["OutboxMessage", "OutboxMessageError", "enqueue", "publish"]
