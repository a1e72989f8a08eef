"""The Spark session of the application, which starts first: this module imports nothing but PySpark."""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from workorders.kafka.spark.network import protection

APPLICATION_SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A second copy of a running task only waits for the first one, after a useless read.
    "spark.speculation": "false",
    # An executor that is silent for so long is lost, and another one reads its ranges: 50 s at most instead of Spark's
    # three minutes. Postgres ends the transaction of a machine that is gone after a minute.
    "spark.storage.blockManagerHeartbeatTimeoutMs": "40s",
    "spark.network.timeoutInterval": "10s",
}
"""Defaults for settings that only a starting application can have."""
DAEMON_SETTING: Final = "spark.python.daemon.module"
"""Which module forks Spark's Python workers."""
OWN_DAEMON: Final = "workorders.kafka.spark.worker_daemon"
"""The module of a Connect server of ours whose Python has this package."""
SESSION_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    # Spark's default is its older Kafka interface, which converts every row to objects and back: four of the JVM's ten
    # microseconds per message. The newer one reads with the same consumer.
    "spark.sql.sources.useV1SourceList": "",
    # Bounds the memory of the executors' Python workers, even if the messages are large.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16MB",
}
"""Settings of every session that reads messages, on a Connect server as well."""
_KAFKA_SOURCE: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


def open_session() -> SparkSession:
    """Return the application's session; opening it takes the JVM some seconds.

    Raises:
        ConfigurationError: the master needs a shared secret, and none is set.
    """
    # Before the JVM starts, PySpark's settings are empty, without those of the command line and of spark-defaults.conf.
    # No public function starts the JVM without a session.
    SparkContext._ensure_initialized()
    given = dict(SparkConf().getAll())
    defaults = {name: value for name, value in APPLICATION_SETTINGS.items() if name not in given}
    settings: dict[str, Any] = {**defaults, **SESSION_SETTINGS, **protection(given)}
    session = SparkSession.builder.appName("workorders").config(map=settings).getOrCreate()
    allow_own_group(session)
    return session


def allow_own_group(session: SparkSession) -> None:
    """Log no warning for each query whose consumers have a group of ours: none joins it, so none disturbs another."""
    log4j: Any = getattr(session.sparkContext._jvm, "org.apache.logging.log4j")
    log4j.core.config.Configurator.setLevel(_KAFKA_SOURCE, log4j.Level.ERROR)


def start_session() -> Future[SparkSession]:
    """Open the session in a thread, while the caller imports the rest, asks Postgres, and asks Kafka."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="spark-session")
    session = thread.submit(open_session)
    thread.shutdown(wait=False)
    return session
