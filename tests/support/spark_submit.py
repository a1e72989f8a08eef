"""The command line of `spark-submit` as the ingest Dag makes it, on a given number of cores of this machine."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from workorders.kafka.definition.spark import DEFAULT_CONF
from workorders.kafka.spark.class_archive import use_archive
from workorders.kafka.spark.kafka_source import split_jars

CORES = 2


def submit_command(
    jars: str, application: Path, arguments: Sequence[str] = (), conf: Mapping[str, str] | None = None
) -> list[str]:
    """Return program and arguments; `jars` are separated by commas, `conf` wins over the settings of the ingest DAG."""
    command = ["spark-submit", "--master", f"local[{CORES}]", "--jars", jars]
    for name, value in use_archive({**DEFAULT_CONF, **(conf or {})}, split_jars(jars)).items():
        command += ["--conf", f"{name}={value}"]
    return [*command, str(application), *arguments]
