"""Spark's Kafka source: a package on Maven Central that PySpark does not contain, in the version of PySpark."""

import hashlib
import tempfile
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
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


LOCK_FILE: Final = files("workorders.kafka.spark").joinpath("jars.lock")
"""The jars of the source for versions of PySpark: group, coordinate, SHA-256 of the content."""


def package() -> str:
    """Return the Maven coordinate of the Kafka source for the installed PySpark.

    Raises:
        ConfigurationError: PySpark is not installed.
    """
    try:
        return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}"
    except PackageNotFoundError:
        raise ConfigurationError(
            "PySpark is not installed, so no version of Spark's Kafka source is known; install "
            "airflow-provider-workorders[spark]."
        ) from None


def split_jars(jars: str | None) -> list[Path]:
    """Return the paths in a text with commas between them, as `--jars` and WORKORDERS_SPARK_JARS have it."""
    return [Path(jar) for jar in (jars or "").split(",") if jar]


def checksums() -> dict[str, str]:
    """Return the SHA-256 of each jar for the installed PySpark, by its coordinate; nothing for an unknown version."""
    lines = [line.split() for line in LOCK_FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    group = next((group for group, coordinate, _ in lines if coordinate == package()), None)
    return {name: digest.removeprefix("sha256:") for found, name, digest in lines if found == group}


def download(folder: Path, *, is_checked: bool = True) -> list[Path]:
    """Download the jars of the Kafka source from Maven Central into a folder, and return their paths.

    Spark's own resolver does it, so mirrors are those of the user's Ivy settings. Unless `is_checked` is False, the
    jars are compared with this package's checksums.

    Raises:
        ConfigurationError: they could not be downloaded, or are not those that this package knows; the folder has none
            of them.
    """
    expected = checksums()
    if is_checked and not expected:
        raise ConfigurationError(
            f"The checksums of the jars of {package()} are not part of this package; nothing was downloaded. Install a "
            f"version of PySpark that {LOCK_FILE.name} names, or download without a check (--unchecked)."
        )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="download-", dir=folder) as scratch:
        nothing = Path(scratch) / "nothing.py"
        nothing.touch()
        options = ["--packages", package(), "--exclude-packages", EXCLUDED, "--conf", f"spark.jars.ivy={scratch}/ivy"]
        done = run_here([*options, str(nothing)])
        found = sorted(Path(scratch, "ivy", "jars").glob("*.jar"))
        if done.returncode != 0 or not found:
            raise ConfigurationError(f"The jars of {package()} were not downloaded into {folder}: {describe_end(done)}")
        if is_checked:
            _require_known(found, expected)
        return [jar.replace(folder / jar.name) for jar in found]


def _require_known(jars: list[Path], expected: dict[str, str]) -> None:
    """Refuse jars if the content of one differs from the checksums, or one is missing."""
    found = {hashlib.sha256(jar.read_bytes()).hexdigest(): jar.name for jar in jars}
    wrong = [name for digest, name in found.items() if digest not in expected.values()]
    wrong += [name for name, digest in expected.items() if digest not in found]
    if wrong:
        raise ConfigurationError(
            f"The downloaded jars are not those that this package knows ({', '.join(wrong)}); none was kept. Try "
            f"again, and if it stays so, do not use what the repository sends."
        )
