"""Attempts at batches on the Spark cluster of a stack: submitted to it, or on a Spark Connect server there."""

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from local_stack.ports import LOOPBACK, accepts_connections, free_port
from local_stack.processes import ManagedProcess
from local_stack.stack import LocalStack
from local_stack.waiting import wait_until
from support.attempting import ingest_batch
from support.batch_submission import batch_command
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.ingest.attempt import RangeOutcome
from workorders.kafka.spark.connect import ConnectServer, ConnectSession
from workorders.kafka.spark.network import CIPHER, network_cipher

Command = Callable[[LocalStack, int], list[str | Path]]
"""Returns the command of a server on a port."""
_SECONDS = 300.0


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
    """Return the command of the package's own server."""
    return ["workorders", "spark", "serve", "--port", str(port), "--master", stack.spark_cluster.master]


@dataclass(frozen=True)
class ServerOnCluster:
    """A Spark Connect server whose executors are on the cluster."""

    process: ManagedProcess
    port: int

    def attempt(self, secrets: JobSecrets, batch_id: int) -> list[RangeOutcome]:
        """Make an attempt at a batch with its own session, and return the outcomes."""
        with ConnectSession(ConnectServer("theirs", "localhost", self.port), conf={}) as session:
            return ingest_batch(secrets, batch_id, session.open)

    def has_run_no_batch(self) -> bool:
        """Return whether the server itself has run none of the batches: its executors are on the cluster."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        return not any("pyspark.daemon" in _command_of(process) for process in family)

    @staticmethod
    def replace_executors(stack: LocalStack) -> None:
        """Kill every executor of the cluster, and wait until the workers have started others."""
        before = _executors(stack)
        for executor in before:
            executor.kill()
        assert wait_until(lambda: len(_executors(stack) - before) == len(before), seconds=_SECONDS)

    def is_announced(self) -> bool:
        """Return whether our server has told its log that it is ready."""
        text = self.process.log.read_text(encoding="utf-8", errors="replace")
        return "The Spark Connect server is ready on port" in text


@contextmanager
def server_on_cluster(stack: LocalStack, name: str, command: Command = ours) -> Iterator[ServerOnCluster]:
    """Run a server on the cluster, of which it takes every core; start the cluster if it was not started."""
    stack.start_spark_cluster()
    port = free_port()
    variables = {**stack.spark_cluster.variables, "PYSPARK_PYTHON": str(stack.spark_cluster.python)}
    server = ServerOnCluster(stack.process(f"connect-{name}", command(stack, port), variables), port)
    server.process.start()
    try:
        # Our server opens its port before it has a session, and Spark 4.1 then refuses queries.
        is_ready = server.is_announced if command is ours else partial(accepts_connections, port)
        server.process.wait_until(is_ready, seconds=_SECONDS, what="the server")
        yield server
    finally:
        server.process.kill()


def submit_to_cluster(
    stack: LocalStack, environment: Mapping[str, str], batch_id: int, *, folder: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Submit an attempt at a batch to the cluster; its driver gets this environment and runs in this folder."""
    stack.start_spark_cluster()
    command = batch_command(stack, batch_id, master=stack.spark_cluster.master)
    variables = {**environment, **stack.spark_cluster.variables}
    before = stack.spark_cluster.applications()
    done = subprocess.run(
        command, env=variables, cwd=folder, capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    assert len(stack.spark_cluster.applications() - before) == 1
    return done


def _executors(stack: LocalStack) -> set[psutil.Process]:
    """Return the JVMs that run tasks, each a child of its worker."""
    found = [child for worker in stack.spark_cluster.workers for child in psutil.Process(worker.pid).children()]
    return {child for child in found if any("CoarseGrainedExecutorBackend" in word for word in _command_of(child))}


def _command_of(process: psutil.Process) -> list[str]:
    """Return the command of a process, empty if it has just ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # or a zombie
        return []
