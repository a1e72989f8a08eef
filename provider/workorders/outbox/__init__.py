"""Messages for Kafka that commit with a Postgres transaction; the relay sends them."""

from workorders.outbox.enqueue import OutboxMessage, enqueue, publish
from workorders.outbox.exceptions import OutboxMessageError

__all__ = ["OutboxMessage", "OutboxMessageError", "enqueue", "publish"]
