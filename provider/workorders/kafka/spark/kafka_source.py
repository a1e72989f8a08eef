"""Spark's Kafka source: a package on Maven Central that PySpark does not contain, in the version of PySpark."""

import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.spark.programs import describe_end, run_here

# PySpark has them, in versions that fit it, and two of them are 50 MB.
EXCLUDED: Final = ",".join(
    (
        "at.yawk.lz4:lz4-java",
        "com.google.code.findbugs:jsr305",
        "org.apache.hadoop:hadoop-client-api",
        "org.apache.hadoop:hadoop-client-runtime",
        "org.lz4:lz4-java",
        "org.scala-lang.modules:scala-parallel-collections_2.13",
        "org.slf4j:slf4j-api",
        "org.xerial.snappy:snappy-java",
    )
)
"""Dependencies of the package that Spark must not load a second time, with commas between them."""


def package() -> str:
    """Return the Maven coordinate of the Kafka source for the installed PySpark.

    Raises:
        ConfigurationError: PySpark is not installed.
    """
    try:
        return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}"
    except PackageNotFoundError:
        raise ConfigurationError(
            "PySpark is not installed, so no version of Spark's Kafka source fits; install "
            "airflow-provider-workorders[spark]."
        ) from None


def split_jars(jars: str | None) -> list[Path]:
    """Return the paths in a text with commas between them, as `--jars` and WORKORDERS_SPARK_JARS have it."""
    return [Path(jar) for jar in (jars or "").split(",") if jar]


def download(folder: Path) -> list[Path]:
    """Download the jars of the Kafka source from Maven Central into a folder, and return their paths.

    Spark's own resolver does it, so mirrors are those of the user's Ivy settings.

    Raises:
        ConfigurationError: they could not be downloaded; the folder has none of them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="download-", dir=folder) as scratch:
        nothing = Path(scratch) / "nothing.py"
        nothing.touch()
        options = ["--packages", package(), "--exclude-packages", EXCLUDED, "--conf", f"spark.jars.ivy={scratch}/ivy"]
        done = run_here([*options, str(nothing)])
        found = sorted(Path(scratch, "ivy", "jars").glob("*.jar"))
        if done.returncode != 0 or not found:
            raise ConfigurationError(f"The jars of {package()} were not downloaded into {folder}: {describe_end(done)}")
        return [jar.replace(folder / jar.name) for jar in found]
