"""The command line of `spark-submit` as the ingest DAG makes it, on so many cores of this machine."""

from collections.abc import Mapping, Sequence
from pathlib import Path

CORES = 2
# As `workorders.kafka.airflow.operators.DEFAULT_CONF`, which cannot be imported without starting up Airflow.
CONF = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.level=WARN"}


def submit_command(
    jars: str, application: Path, arguments: Sequence[str] = (), conf: Mapping[str, str] | None = None
) -> list[str]:
    """Return program and arguments; `jars` are separated by commas, `conf` wins over the settings of the ingest DAG."""
    command = ["spark-submit", "--master", f"local[{CORES}]", "--jars", jars]
    for name, value in (CONF | dict(conf or {})).items():
        command += ["--conf", f"{name}={value}"]
    return [*command, str(application), *arguments]
