"""Spark application: the least a Spark session can do with a few messages, that is start, read them and stop."""

import json
import os
import sys

from pyspark.sql import SparkSession

if __name__ == "__main__":
    topic, starts, ends = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    spark = SparkSession.builder.appName("bare").getOrCreate()
    rows = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", json.loads(os.environ["WORKORDERS_KAFKA"])["bootstrap.servers"])
        .option("assign", json.dumps({topic: [int(partition) for partition in starts]}))
        .option("startingOffsets", json.dumps({topic: starts}))
        .option("endingOffsets", json.dumps({topic: ends}))
        .load()
        .select("value")
        .collect()
    )
    expected = sum(ends[partition] - starts[partition] for partition in ends)
    spark.stop()
    sys.exit(len(rows) != expected)
