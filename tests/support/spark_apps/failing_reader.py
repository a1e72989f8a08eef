"""The application with a reader that fails in the JVM: partition 0 breaks in the middle, the others are well.

The messages are made up here in the shape of `kafka.spark.source.read_ranges`; the look behind the last one is real.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.spark import driver
from workorders.kafka.spark.session import open_session

FAILING_PARTITION = 0
FAILING_SHARE = 0.9


def read_ranges(
    spark: SparkSession, java_settings: Mapping[str, str], attempts: Sequence[Attempt], group: str
) -> DataFrame:
    """Return the messages of each attempt in its own Spark partition."""
    return reduce(DataFrame.union, [_messages(spark, attempt) for attempt in attempts])


def _messages(spark: SparkSession, attempt: Attempt) -> DataFrame:
    partition, range_ = attempt.range.partition, attempt.range
    offsets = spark.range(range_.start, range_.end, 1, 1)
    value = F.lit(b"{}")
    if partition.partition == FAILING_PARTITION:
        fails_at = int(range_.start + (range_.end - range_.start) * FAILING_SHARE)
        value = F.when(F.col("id") == fails_at, F.raise_error(F.lit("the JVM's reader broke"))).otherwise(value)
    return offsets.select(
        F.lit(None).cast("binary").alias("key"),
        value.cast("binary").alias("value"),
        F.lit(partition.topic).alias("topic"),
        F.lit(partition.partition).cast("int").alias("partition"),
        F.col("id").alias("offset"),
        F.lit(0).cast("long").alias("timestamp_ms"),
        F.lit(0).cast("int").alias("timestampType"),
        F.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers"),
    )


if __name__ == "__main__":
    driver.read_ranges = read_ranges  # type: ignore[attr-defined]
    sys.exit(driver.main(open_session))
