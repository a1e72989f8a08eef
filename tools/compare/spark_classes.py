"""`spark-submit spark_classes.py`: what a query loads, for a JVM that writes an archive of its classes when it ends."""

from collections.abc import Iterator

from pyspark.sql import Row, SparkSession


def _read(rows: Iterator[Row]) -> None:
    for _ in rows:
        pass


if __name__ == "__main__":
    spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.range(10).selectExpr("CAST(id AS STRING) AS key").foreachPartition(_read)
    spark.stop()
