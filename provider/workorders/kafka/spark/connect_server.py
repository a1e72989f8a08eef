"""A Spark Connect server for the batches: `workorders spark serve`.

It is an application of ours with Spark's Connect plugin and not Spark's `SparkConnectServer`, which gives each session
its own Python daemon: seconds for each batch, and a daemon that is never ended.
"""

import os
import secrets
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from workorders.core.environment import find_secret
from workorders.core.exceptions import ConfigurationError
from workorders.core.private_files import write_private
from workorders.kafka.spark.cache import make_cache_folder, token_file
from workorders.kafka.spark.class_archive import CLASS_PATH, class_path, load_classes, use_archive
from workorders.kafka.spark.installed_package import package_archive
from workorders.kafka.spark.network import is_one_process, protection
from workorders.kafka.spark.session import APPLICATION_SETTINGS, DAEMON_SETTING, OWN_DAEMON, allow_own_group

TOKEN_VARIABLE: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of a variable
"""Spark's own variable for the token that clients must have."""
_DOORS: Final = ("spark.connect.grpc.", "spark.connect.authenticate.")
"""Beginnings of the settings that say who reaches the server."""

_SERVER_SETTINGS: Final[Mapping[str, str]] = {
    **APPLICATION_SETTINGS,
    "spark.driver.extraJavaOptions": "-Dlog4j2.level=WARN",
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    # With isolation each session has separate Python daemons, which outlive it.
    "spark.sql.artifact.isolation.enabled": "false",
    # Small batches have a separate pool; see `ConnectSession.open`.
    "spark.scheduler.mode": "FAIR",
    # A task that dies leaves its query running until the server has not heard of it for so long. Its reader is fenced
    # by the ledger, but it holds the range.
    "spark.connect.execute.manager.detachedTimeout": "30s",
    "spark.connect.session.manager.defaultSessionTimeout": "10m",
    # The plan of a query has Kafka's password among its options; the server keeps the text for its pages.
    "spark.sql.redaction.string.regex": "(?s).+",
    "spark.redaction.string.regex": "(?s).+",
    "spark.sql.redaction.options.regex": "(?i).*",
    "spark.sql.connect.ui.retainedSessions": "10",
    "spark.sql.connect.ui.retainedStatements": "10",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "1000",
    # Spark keeps the messages of the last poll, and idle consumers, for minutes.
    "spark.kafka.consumer.fetchedData.cache.timeout": "1s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "1s",
    "spark.kafka.consumer.cache.timeout": "10s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "1s",
}


def serve(
    *,
    host: str,
    port: int,
    master: str,
    jars: list[Path],
    conf: Mapping[str, str],
    ready: Callable[[int, Path | None], None],
) -> None:
    """Run a Connect server until SIGTERM or SIGINT.

    Args:
        host: address to listen on.
        port: port to listen on; 0 for a free one.
        master: Spark master whose executors run the batches.
        jars: the jars of Spark's Kafka source.
        conf: Spark settings that win over ours.
        ready: called after a first query has loaded what every batch needs, with the port, and with the file of the
            token if none was given.

    Raises:
        ConfigurationError: a setting would let others in.
    """
    for name in conf:
        if name.startswith(_DOORS):
            raise ConfigurationError(
                f"--conf {name} would let others run any code in the Spark Connect server; it was not started. Use "
                f"--host, --port, and {TOKEN_VARIABLE} instead."
            )
    given = find_secret(TOKEN_VARIABLE)
    # Loopback is open to every user of the machine. Spark reads no file.
    os.environ[TOKEN_VARIABLE] = token = given or secrets.token_urlsafe(32)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    spark = _session(host, port, master, jars, conf)
    try:
        bound = _bound_port(spark)
        allow_own_group(spark)
        load_classes(spark)  # the first query of a server costs ten seconds
        file = None if given else _write_token(bound, token)
        ready(bound, file)
        ended.wait()
    finally:
        spark.stop()


def _write_token(port: int, token: str) -> Path:
    file = make_cache_folder("spark-connect") / token_file(port).name
    write_private(file, token)
    return file


def _session(host: str, port: int, master: str, jars: list[Path], conf: Mapping[str, str]) -> SparkSession:
    settings = {
        "spark.master": master,
        **use_archive(_SERVER_SETTINGS, jars),
        "spark.connect.grpc.binding.address": host,
        "spark.connect.grpc.binding.port": str(port),
        # On the class path and not by `--jars`, so that an archive of classes can hold theirs.
        CLASS_PATH: class_path(jars),
        DAEMON_SETTING: OWN_DAEMON,
        **({} if is_one_process(master) else _files_of_executors(jars)),
        **conf,
    }
    # Arguments of the JVM that starts: memory and class path are too late afterwards. It reads spark-defaults.conf.
    conf_of_jvm = SparkConf().setAll(list(settings.items()))
    SparkContext._ensure_initialized(conf=conf_of_jvm)
    all_conf = conf_of_jvm.setAll(list(protection(dict(SparkConf().getAll())).items()))
    return SparkSession.builder.config(conf=all_conf).appName("workorders").getOrCreate()


def _files_of_executors(jars: list[Path]) -> dict[str, str]:
    """Return the settings by which executors elsewhere get the jars and this package, for as long as the server runs.

    The package as an artifact of a session is gone with the session, because sessions are not isolated here. Spark
    still lets each later executor ask for it, whose tasks then all fail.
    """
    package = package_archive()
    return {
        "spark.jars": ",".join(map(str, jars)),
        "spark.files": str(package),
        "spark.executorEnv.PYTHONPATH": package.name,  # an executor's files are in the folder that it runs in
    }


def _bound_port(spark: SparkSession) -> int:
    # As PySpark's own tests ask for it: the singleton of a Scala object.
    singleton: Any = getattr(spark.sparkContext._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    return int(getattr(singleton, "MODULE$").localPort())
