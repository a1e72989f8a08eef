"""The faults; importing this package puts them all on the list."""

from faults.cases import (
    broker,
    clocks,
    decisions,
    driver,
    growth,
    planner,
    postgres,
    running_spark,
    spark_cluster,
    topics,
    virtual_partitions,
    worker,
)
from faults.catalogue import FAULTS

__all__ = [
    "FAULTS",
    "broker",
    "clocks",
    "decisions",
    "driver",
    "growth",
    "planner",
    "postgres",
    "running_spark",
    "spark_cluster",
    "topics",
    "virtual_partitions",
    "worker",
]
