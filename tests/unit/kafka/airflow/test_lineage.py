"""What OpenLineage is told of a batch."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from workorders.core.triggers import Trigger
from workorders.kafka.airflow.lineage import ingest_lineage
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.ingest.ingest_attempt import IngestAttempt
from workorders.kafka.ledger.batches import Batch, BatchRange
from workorders.kafka.partitions import OffsetRange, Partition

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KAFKA = {"bootstrap.servers": "SASL_SSL://broker-1:9093,broker-2:9093", "sasl.password": "hunter2"}
URL = "postgresql://ann:hunter2@db:5433/orders"


def finished(topic: str, partition: int, start: int, end: int) -> BatchRange:
    return BatchRange(
        OffsetRange(Partition(topic, partition, "id"), start, end), NOW, created=end - start - 2, rejected=1, filtered=1
    )


NO_DATABASE: Any = None
ATTEMPT = IngestAttempt(JobSecrets(URL, KAFKA), 7, NO_DATABASE)
ATTEMPT.batch = Batch(
    7,
    Trigger(1, "orders", "kafka", 1, "ship"),
    {},
    NOW,
    (
        finished("orders", 1, 5, 10),
        finished("orders", 0, 0, 10),
        replace(finished("refunds", 0, 0, 3), finished_at=None, created=None, rejected=None),
    ),
)


def test_a_batch_leads_from_its_topics_to_the_table_with_ranges_and_counts() -> None:
    found = ingest_lineage(ATTEMPT)
    (topic,) = found.inputs
    assert (topic.namespace, topic.name) == ("kafka://broker-1:9093", "orders")
    assert topic.inputFacets["inputStatistics"].rowCount == 15
    offsets = topic.inputFacets["workordersOffsets"]
    assert (offsets.batchId, offsets.trigger) == (7, "orders")
    assert [(part["partition"], part["start"], part["end"], part["created"]) for part in offsets.ranges] == [
        (0, 0, 10, 8),
        (1, 5, 10, 3),
    ]
    (table,) = found.outputs
    assert (table.namespace, table.name) == ("postgres://db:5433", "orders.workorders.work_orders")
    assert table.outputFacets["outputStatistics"].rowCount == 13


def test_no_login_is_in_what_is_sent() -> None:
    sent = repr(ingest_lineage(ATTEMPT))
    assert "hunter2" not in sent
    assert "ann" not in sent
