"""Spark Connect servers whose executors are on a cluster, and have no package: Spark's own server, and ours."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from local_stack.ports import LOOPBACK, accepts_connections, free_port
from local_stack.processes import ManagedProcess
from local_stack.stack import LocalStack
from support.in_process_trigger import InProcessTrigger, kept
from support.topics import Topics
from workorders.core.postgres.connection import Connection
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.spark.connect import ConnectServer, ConnectSession
from workorders.kafka.spark.driver import ingest_batch
from workorders.kafka.spark.network import CIPHER, network_cipher

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

SECONDS = 300.0


def sparks_own(stack: LocalStack, port: int) -> list[str | Path]:
    """Return the command of the server that Spark's documents start."""
    settings = {
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        CIPHER: network_cipher(),
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    server = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    jars = ",".join(map(str, stack.spark_jars))
    return ["spark-submit", "--master", stack.spark_cluster.master, "--jars", jars, *options, *server]


def ours(stack: LocalStack, port: int) -> list[str | Path]:
    return ["workorders", "spark", "serve", "--port", str(port), "--master", stack.spark_cluster.master]


@pytest.mark.parametrize("command", [sparks_own, ours])
def test_each_session_brings_the_package_to_the_executors(
    stack: LocalStack,
    topics: Topics,
    connection: Connection,
    name: str,
    *,
    command: Callable[[LocalStack, int], list[str | Path]],
) -> None:
    stack.start_spark_cluster()
    port = free_port()
    variables = {**stack.spark_cluster.variables, "PYSPARK_PYTHON": str(stack.spark_cluster.python)}
    server = stack.process(f"connect-{name}", command(stack, port), variables)
    server.start()
    try:
        # Ours opens its port before it has a session, and Spark 4.1 then refuses queries.
        is_ready = partial(is_announced, server) if command is ours else partial(accepts_connections, port)
        server.wait_until(is_ready, seconds=SECONDS, what="the server")
        topics.create(name, partitions=2)
        for turn in range(2):
            for partition in range(2):
                topics.produce(name, [b"{}"] * 10, partition=partition)
            batch_id = InProcessTrigger(stack, name).plan().batch_id
            assert batch_id is not None
            with ConnectSession(ConnectServer("theirs", "localhost", port), conf={}) as session:
                secrets = JobSecrets(stack.database_url, stack.kafka_settings)
                outcomes, _ = ingest_batch(secrets, batch_id, None, session.open)
            assert [outcome.error for outcome in outcomes] == [None, None], turn
        assert list(kept(connection, name).values()) == [list(range(20)), list(range(20))]
        assert no_worker_runs_in(server)
    finally:
        server.kill()


def is_announced(server: ManagedProcess) -> bool:
    return "The Spark Connect server is ready on port" in server.log.read_text(encoding="utf-8", errors="replace")


def no_worker_runs_in(server: ManagedProcess) -> bool:
    """Return whether the server itself has run none of the batches: its executors are on the cluster."""
    family = psutil.Process(server.pid).children(recursive=True)
    return not any("pyspark.daemon" in process.cmdline() for process in family)
