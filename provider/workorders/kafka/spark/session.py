"""The Spark session of the application, begun before all else: nothing here imports more than PySpark needs."""

from concurrent.futures import Future, ThreadPoolExecutor

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from workorders.kafka.spark.network import protection

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A copy of a task while the first still runs only waits for that one; it costs a read for nothing.
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    # Spark reads Kafka by its older interface unless told otherwise, which turns every row into objects and back: four
    # of the JVM's ten microseconds a message. The newer one reads by the same consumer.
    "spark.sql.sources.useV1SourceList": "",
    # Bounds the memory of the executors' Python workers, however large the messages are.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16MB",
}


def open_session() -> SparkSession:
    """Return the application's session; opening it takes the JVM some seconds.

    Raises:
        ConfigurationError: the master needs a shared secret, and there is none.
    """
    # Before there is a JVM, PySpark's settings are an empty dictionary, without those of the command line and of
    # spark-defaults.conf. Nothing public begins the JVM without a session.
    SparkContext._ensure_initialized()
    settings = _SETTINGS | protection(dict(SparkConf().getAll()))
    builder = SparkSession.builder.appName("workorders")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def start_session() -> Future[SparkSession]:
    """Open the session in a thread, while the caller imports the rest, asks Postgres, and asks Kafka."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="spark-session")
    session = thread.submit(open_session)
    thread.shutdown(wait=False)
    return session
