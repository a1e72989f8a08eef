"""Reads ranges of Kafka offsets with Spark's Kafka source, one Spark partition for each range or virtual partition."""

import hmac
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import zip_longest
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ledger.batches import Batch

_FETCHING = {
    # Spark asks for both ends of the log after each poll, which discards prefetched messages: with 500 messages per
    # poll, Kafka's default, the broker sent most of them several times. A poll is still limited to one fetch,
    # `max.partition.fetch.bytes`.
    "kafka.max.poll.records": "20000",
}


GROUP_PREFIX: Final = "workorders-spark-"


def read_ranges(
    spark: SparkSession, java_settings: Mapping[str, str], attempts: Sequence[Attempt], group: str
) -> DataFrame:
    """Return the visible messages of the ranges, in the order of their offsets within a range.

    One relation of Spark's source has one range of each partition, so virtual partitions take several relations. Spark
    would also cut a range itself, by a formula that it does not promise.

    The columns are those that `partition_ingest.map_batch` takes. Milliseconds are a plain number, because Spark would
    convert a timestamp to the session's time zone on its way to Python.
    """
    relations = [_read_round(spark, java_settings, some, group) for some in rounds(attempts)]
    return reduce(lambda one, other: one.union(other), relations)


def rounds(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """Return the attempts such that no list has two of one partition; the k-th of each partition are together."""
    by_partition: dict[tuple[str, int], list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_partition[attempt.range.partition.topic_partition].append(attempt)
    return [[attempt for attempt in some if attempt is not None] for some in zip_longest(*by_partition.values())]


def _read_round(
    spark: SparkSession, java_settings: Mapping[str, str], attempts: Sequence[Attempt], group: str
) -> DataFrame:
    return (
        spark.read.format("kafka")
        .options(**options(java_settings, attempts, group))
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


def reader_group(batch: Batch, java_settings: Mapping[str, str], *, key: str) -> str:
    """Return the consumer group under which Spark keeps its consumers; none joins it, and none commits.

    Spark's default is a new group per query: a running Spark uses no consumer a second time, and keeps the settings of
    each, with passwords, until it ends. Settings that differ under one group are an error there, whose text has both,
    and a kept consumer may have messages of before. So the group differs where settings do, or what offsets mean.

    Args:
        batch: the batch. All topics of its trigger count: a group for each choice among them would be many.
        java_settings: settings of Kafka's Java client.
        key: a secret. The group's id is logged, and without a key people could try passwords against it.
    """
    text = json.dumps([batch.trigger.name, batch.logs, _FETCHING | dict(java_settings)], sort_keys=True)
    return GROUP_PREFIX + hmac.digest(key.encode(), text.encode(), "sha256").hex()[:32]


def options(java_settings: Mapping[str, str], attempts: Sequence[Attempt], group: str) -> dict[str, str]:
    """Return the options of Spark's Kafka source for at most one range of each partition.

    The connection may override performance settings only.
    """
    starts: dict[str, dict[int, int]] = defaultdict(dict)
    ends: dict[str, dict[int, int]] = defaultdict(dict)
    for attempt in attempts:
        topic, partition = attempt.range.partition.topic_partition
        starts[topic][partition] = attempt.read_from
        ends[topic][partition] = attempt.range.end
    return {
        **_FETCHING,
        **{f"kafka.{name}": value for name, value in java_settings.items()},
        "kafka.isolation.level": "read_committed",
        "kafka.group.id": group,
        "assign": json.dumps({topic: list(found) for topic, found in starts.items()}),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
    }
