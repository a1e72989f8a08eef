"""OpenLineage: which topics became work orders, with ranges and counts.

Only Airflow's provider for OpenLineage calls this, and only where it is installed are its classes there.
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final

from airflow.providers.openlineage.extractors import OperatorLineage
from attrs import define
from openlineage.client.generated.base import InputDataset, InputDatasetFacet, OutputDataset
from openlineage.client.generated.input_statistics_input_dataset import InputStatisticsInputDatasetFacet
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
from psycopg import conninfo

from workorders.core.postgres.connection import SCHEMA
from workorders.kafka.ingest.ingest_attempt import IngestAttempt
from workorders.kafka.ledger.batches import BatchRange

_BROKER_PORT: Final = "9092"
_DATABASE_PORT: Final = "5432"


@define
class OffsetsInputDatasetFacet(InputDatasetFacet):
    """The half-open ranges of offsets that a batch read of a topic, and the counts of their messages by outcome."""

    batchId: int  # noqa: N815 - OpenLineage's form of names
    trigger: str
    ranges: list[dict[str, Any]]


def ingest_lineage(attempt: IngestAttempt | None) -> "OperatorLineage[Any, Any]":
    """Return from which topics a batch created work orders: its finished ranges; nothing without an attempt."""
    if attempt is None:
        return OperatorLineage()
    batch, kafka = attempt.ended or attempt.batch, attempt.secrets.kafka
    finished = sorted(batch.finished, key=lambda range_: range_.range.partition.topic_partition)
    topics = {
        topic: list(ranges) for topic, ranges in groupby(finished, key=lambda range_: range_.range.partition.topic)
    }
    inputs = [
        InputDataset(
            _cluster(kafka),
            topic,
            inputFacets={
                "inputStatistics": InputStatisticsInputDatasetFacet(
                    rowCount=sum((range_.messages or 0) + range_.filtered for range_ in ranges)
                ),
                "workordersOffsets": OffsetsInputDatasetFacet(batch.id, batch.trigger.name, list(map(_range, ranges))),
            },
        )
        for topic, ranges in topics.items()
    ]
    output = OutputDataset(
        *_work_orders(attempt.secrets.database_url),
        outputFacets={"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=sum(attempt.created))},
    )
    return OperatorLineage(inputs=inputs, outputs=[output])


def _range(range_: BatchRange) -> dict[str, Any]:
    return {
        "partition": range_.range.partition.partition,
        "start": range_.range.start,
        "end": range_.range.end,
        "created": range_.created,
        "rejected": range_.rejected,
        "existing": range_.existing,
        "filtered": range_.filtered,
    }


def _cluster(kafka: Mapping[str, Any]) -> str:
    """Return the namespace of a cluster, as OpenLineage names it: by its first broker."""
    first = str(kafka.get("bootstrap.servers", "")).split(",")[0].strip().rpartition("://")[2]
    return f"kafka://{first}" if ":" in first else f"kafka://{first}:{_BROKER_PORT}"


def _work_orders(database_url: str) -> tuple[str, str]:
    """Return the namespace and the name of the table; no part of a login is in it."""
    given = conninfo.conninfo_to_dict(database_url)
    # Of several hosts the first; a folder of a socket is on this machine.
    host = str(given.get("host") or "localhost").split(",")[0]
    port = str(given.get("port") or _DATABASE_PORT).split(",")[0]
    return (
        f"postgres://{'localhost' if host.startswith('/') else host}:{port}",
        f"{given.get('dbname')}.{SCHEMA}.work_orders",
    )
