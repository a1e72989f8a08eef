"""The command line of `spark-submit` as the ingest Dag makes it, on a given number of cores of this machine."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from workorders.kafka.definition.spark import DEFAULT_CONF
from workorders.kafka.spark.class_archive import find_archive, java_options

CORES = 2


def submit_command(
    jars: str, application: Path, arguments: Sequence[str] = (), conf: Mapping[str, str] | None = None
) -> list[str]:
    """Return program and arguments; `jars` are separated by commas, `conf` wins over the settings of the ingest DAG."""
    paths = [Path(jar) for jar in jars.split(",")]
    command = ["spark-submit", "--master", f"local[{CORES}]", "--jars", jars]
    settings = {**DEFAULT_CONF, **(conf or {})}
    archive = find_archive(paths)
    if archive is not None:
        command += ["--driver-class-path", os.pathsep.join(map(str, paths))]
        options = "spark.driver.extraJavaOptions"
        settings[options] = f"{settings.get(options, '')} {java_options(archive)}"
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, str(application), *arguments]
