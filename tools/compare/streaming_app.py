"""`python streaming_app.py SERVERS TOPIC TABLE WAY HOME JARS`: Structured Streaming with `foreachBatch`."""

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import psycopg
from pyspark.sql import DataFrame, SparkSession

from compare.function import as_object

_COLUMNS = '(topic, partition, "offset", key, body, raw)'
_UPSERT = 'ON CONFLICT (topic, partition, "offset") DO UPDATE SET key = excluded.key, body = excluded.body'


def main(servers: str, topic: str, table: str, way: str, *files: str) -> None:
    """Run the query until it fails; the files are the folder of checkpoints and the jars."""
    home, jars = files
    # A query with another checkpoint counts its batches from 0 again.
    name = f"{table}-{os.environ.get('QUERY', 'first')}"
    spark = (
        SparkSession.builder.master("local[2, 4]")  # a cluster repeats a task as often by default
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "768m")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .option("startingOffsets", os.environ.get("STARTING_OFFSETS", "earliest"))
        .option("maxOffsetsPerTrigger", os.environ["MAX_OFFSETS"])
        .option("failOnDataLoss", os.environ.get("FAIL_ON_DATA_LOSS", "true"))
        .load()
        .selectExpr("topic", "partition", "offset", "CAST(key AS STRING) AS key", "value")
    )
    insert = f"INSERT INTO {table} {_COLUMNS} VALUES (%s, %s, %s, %s, %s, %s)"
    write = {"upsert": _upsert(f"{insert} {_UPSERT}"), "once": _once(insert, table, name)}[way]
    query = messages.writeStream.foreachBatch(write).option("checkpointLocation", f"{home}/checkpoint-{name}").start()
    query.awaitTermination()


def _upsert(insert: str) -> Any:
    url = os.environ["EFFECTS_URL"]

    def write_partition(rows: Iterable[Any]) -> None:
        with psycopg.connect(url) as connection:
            connection.cursor().executemany(insert.encode(), _values(rows))

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.foreachPartition(write_partition)

    return write


def _once(insert: str, table: str, name: str) -> Any:
    url = os.environ["EFFECTS_URL"]
    claim = f"INSERT INTO {table}_batches VALUES (%s, %s) ON CONFLICT DO NOTHING"

    def write(batch: DataFrame, batch_id: int) -> None:
        with psycopg.connect(url) as connection:
            if connection.execute(claim.encode(), (name, batch_id)).rowcount:
                connection.cursor().executemany(insert.encode(), _values(batch.toLocalIterator()))

    return write


def _values(rows: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Return what is inserted; a message that is no JSON object keeps its bytes in a column of their own."""
    for row in rows:
        try:
            body, raw = as_object(row.value), None
        except ValueError:
            body, raw = None, row.value or b""
        yield row.topic, row.partition, row.offset, row.key, body, raw


if __name__ == "__main__":
    main(*sys.argv[1:])
