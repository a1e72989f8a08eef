"""An archive of the classes that Spark's JVM loads: with it, a submitted application starts in two thirds of the time.

Java maps such an archive (JEP 350) instead of reading and checking 15,000 classes from jars. It is for one Java and one
class path, so its name is a digest of both. It contains only classes of the JVM's own class path: the jars of Spark's
Kafka source must be there as well, and not among those that `--jars` adds later.
"""

import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.spark.cache import cache_folder, make_cache_folder
from workorders.kafka.spark.network import LOOPBACK
from workorders.kafka.spark.programs import describe_end, java_home, run_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLASS_PATH: Final = "spark.driver.extraClassPath"
"""Spark's setting for the class path of the driver's JVM."""
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_FOLDER: Final = "class-data"
_NO_BROKER: Final = "127.0.0.1:1"


def find_archive(jars: Sequence[Path]) -> Path | None:
    """Return the archive for this Java, the installed PySpark, and these jars; None if there is none."""
    path = _archive_path(jars)
    return path if path is not None and path.exists() else None


def create_archive(jars: Sequence[Path]) -> Path:
    """Return the archive; make it first if there is none, which takes half a minute.

    Raises:
        ConfigurationError: there is no Java or no PySpark, or the application that loads the classes failed.
    """
    path = _archive_path(jars)
    if path is None:
        raise ConfigurationError(
            "Java or PySpark was not found, so no archive of Spark's classes was made; install both, and set JAVA_HOME."
        )
    if path.exists():
        return path
    with tempfile.TemporaryDirectory(prefix="training-", dir=make_cache_folder(_FOLDER)) as scratch:
        made = Path(scratch) / path.name
        _train(jars, made)
        made.replace(path)  # in one step: another process may look for it, or make it as well
    return path


def use_archive(conf: Mapping[str, Any], jars: Sequence[Path]) -> dict[str, Any]:
    """Return Spark settings with which the driver's JVM uses the archive, or starts without if that is for another one.

    The settings stay as they are if there is no archive, or if they have their own class path.
    """
    archive = find_archive(jars)
    if archive is None or CLASS_PATH in conf:
        return dict(conf)
    options = [conf.get(_JAVA_OPTIONS), f"-XX:SharedArchiveFile={archive} -Xshare:auto"]
    return {**conf, CLASS_PATH: class_path(jars), _JAVA_OPTIONS: " ".join(filter(None, options))}


def class_path(jars: Sequence[Path]) -> str:
    """Return the value of `CLASS_PATH` for jars."""
    return os.pathsep.join(map(str, jars))


def _archive_path(jars: Sequence[Path]) -> Path | None:
    java, spark = java_home(), importlib.util.find_spec("pyspark")  # an import would take half a second
    if java is None or spark is None or spark.origin is None:
        return None
    return cache_folder(_FOLDER) / f"spark-{_digest(java, Path(spark.origin).parent, jars)}.jsa"


def _digest(java: Path, spark: Path, jars: Sequence[Path]) -> str:
    """Return what the archive depends on: the Java, and the jars in the order in which a `*` gives them to it."""
    release = java / "release"
    folder = spark / "jars"
    paths = [*jars, *(folder / name for name in os.listdir(folder))]  # noqa: PTH208 - iterdir promises no order
    seen = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    text = repr((str(java), release.read_text() if release.exists() else "", seen))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _train(jars: Sequence[Path], made: Path) -> None:
    """Run a small Spark application whose JVM writes the archive when it ends."""
    variables = {"SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={made}", "SPARK_LOCAL_IP": LOOPBACK}
    done = run_here(["--driver-class-path", class_path(jars), __file__], variables)
    if done.returncode != 0 or not made.exists():
        raise ConfigurationError(f"The archive of Spark's classes was not made: {describe_end(done)}")


def load_classes(spark: "SparkSession") -> None:
    """Load what a batch loads: a Python worker, Arrow, the plan of Spark's Kafka source, and Kafka's clients."""
    spark.range(10).mapInArrow(lambda batches: batches, "id long").collect()
    options = {"kafka.bootstrap.servers": _NO_BROKER, "subscribe": "none"}
    spark.read.format("kafka").options(**options).load().selectExpr("unix_millis(timestamp)")
    jvm: Any = spark.sparkContext._jvm
    settings = jvm.java.util.Properties()
    settings.put("bootstrap.servers", _NO_BROKER)
    for part in ("key", "value"):
        settings.put(f"{part}.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer")
    jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings).close()
    jvm.org.apache.kafka.clients.admin.Admin.create(settings).close()


def _main() -> None:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only the application that `_train` submits needs it

    spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    load_classes(spark)
    spark.stop()


if __name__ == "__main__":
    _main()
