"""Which batch created a work order."""

from typing import Final

from workorders.core.history.work_orders import WorkOrder
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.kafka.ledger.positions import parse_stream_name

_QUERIES = load_queries("workorders.kafka.ledger", "sql/origin.sql")

_DELETED: Final = "deleted by retention: it was older than the workflow keeps some work orders"


def missing_text(work_order: WorkOrder) -> str | None:
    """Return what people read in place of a batch that is not found; None for a work order of another source."""
    return _DELETED if work_order.stream is not None and parse_stream_name(work_order.stream) is not None else None


def find_batch(connection: Connection, work_order: WorkOrder) -> int | None:
    """Return the number of the batch that created a work order; None for another source, or if retention deleted it."""
    trigger, stream = work_order.trigger, work_order.stream
    found = None if trigger is None or stream is None else parse_stream_name(stream)
    if found is None:
        return None
    partition, generation = found
    arguments = {
        "trigger": trigger,
        "topic": partition.topic,
        "partition": partition.partition,
        "topic_id": partition.topic_id,
        "generation": generation,
        "position": work_order.position,
        "created_at": work_order.created_at,
    }
    row = connection.execute(_QUERIES["batch_of_position"], arguments).fetchone()
    return None if row is None else row[0]
