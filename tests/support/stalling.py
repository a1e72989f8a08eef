"""Stalls and how long they last."""

from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.ledger import batches, positions, stalls


def stall(connection: Connection, batch_id: int, error: str = "orders 0: no.") -> int:
    """Let an attempt at a batch fail on every range, and return its epoch."""
    epoch = positions.take_epoch(connection, batch_id)
    batch = batches.load(connection, batch_id)
    stalls.record(connection, batch, epoch, {range_.range: error for range_ in batch.unfinished})
    connection.commit()
    return epoch


def let_it_last(connection: Connection, trigger: Trigger, seconds: float) -> None:
    """Let the stalls of a trigger have begun so much earlier, and an alert for them with them."""
    connection.execute(
        """
        UPDATE workorders.kafka_ledger
        SET status_since = status_since - %(seconds)s * interval '1 second',
            alerted_since = alerted_since - %(seconds)s * interval '1 second'
        WHERE trigger_id = %(trigger_id)s AND status = 'stalled'
        """,
        {"seconds": seconds, "trigger_id": trigger.id},
    )
    connection.commit()
