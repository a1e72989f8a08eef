"""Reads ranges of Kafka offsets with Spark's own Kafka source, one Spark partition a Kafka partition."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from workorders.kafka.attempt import Attempt


def read(spark: SparkSession, java_settings: Mapping[str, str], attempts: Sequence[Attempt]) -> DataFrame:
    """Return the visible messages of the ranges, in the order of their offsets within a partition.

    The columns are those that `RecordMapping.items` takes. Milliseconds travel as a plain number: a Spark timestamp
    would be moved into the session's time zone on its way to Python.

    Args:
        spark: the session.
        java_settings: settings of Kafka's Java client.
        attempts: what to read.
    """
    assigned: dict[str, list[int]] = defaultdict(list)
    starts: dict[str, dict[str, int]] = defaultdict(dict)
    ends: dict[str, dict[str, int]] = defaultdict(dict)
    for attempt in attempts:
        partition = attempt.range.partition
        assigned[partition.topic].append(partition.partition)
        starts[partition.topic][str(partition.partition)] = attempt.read_from
        ends[partition.topic][str(partition.partition)] = attempt.range.end
    return (
        spark.read.format("kafka")
        .options(**{f"kafka.{name}": value for name, value in java_settings.items()})
        .option("kafka.isolation.level", "read_committed")
        .option("assign", json.dumps(assigned))
        .option("startingOffsets", json.dumps(starts))
        .option("endingOffsets", json.dumps(ends))
        .option("failOnDataLoss", "true")
        .option("includeHeaders", "true")
        .load()
        .selectExpr(
            "key",
            "value",
            "topic",
            "partition",
            "offset",
            "unix_millis(timestamp) AS timestamp_ms",
            "timestampType",
            "headers",
        )
    )
