"""Messages for Kafka that commit with a Postgres transaction; a relay in the Kafka room carries them there."""

from workorders.outbox.enqueue import enqueue
from workorders.outbox.exceptions import OutboxMessageError
from workorders.outbox.message import OutboxMessage

__all__ = ["OutboxMessage", "OutboxMessageError", "enqueue"]
