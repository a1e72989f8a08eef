"""A Spark application that loads the classes that ours loads: a session, a Python worker, rows through Arrow."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _main() -> None:
    session = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    session.range(10).mapInArrow(_same, "id long").collect()
    session.stop()


if __name__ == "__main__":
    _main()
