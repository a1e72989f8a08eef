"""The memory of a Spark Connect server after many small batches, and what grows in it."""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil

from benchmarks import batches, messages
from local_stack.stack import LocalStack
from support.attempting import ingest_batch
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.spark.connect import ConnectServer, ConnectSession

_ROW = re.compile(r"^\s*\d+:\s+(\d+)\s+(\d+)\s+(\S+)", re.MULTILINE)
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Look:
    """The server's processes after a number of batches."""

    batches: int
    live_mib: float
    """Objects of the JVM that are in use, after a full collection."""
    rss_mib: float
    """Resident memory of the JVM."""
    python_processes: int
    """Daemons and their workers, without the process that started the JVM."""
    python_mib: float
    """Their resident memory; what they share is counted once for each."""
    bytes_of_classes: Counter[str]

    def __str__(self) -> str:
        return (
            f"{self.batches:,} batches: {self.live_mib:.1f} MiB live in the JVM, {self.rss_mib:.0f} MiB resident, "
            f"{self.python_processes} Python processes with {self.python_mib:.0f} MiB"
        )


def looks(
    stack: LocalStack, topic: str, *, warm_up: int, count: int, every: int, say: Callable[[str], None]
) -> Iterator[Look]:
    """Ingest batches of one message each on the stack's server; look after the warm-up and then again and again."""
    messages.create_topics(stack.bootstrap_servers, [topic], 1)
    messages.produce(stack.bootstrap_servers, topic, 1, warm_up + count)
    stack.start_spark_connect()
    for number in range(warm_up + count):
        _ingest_one(stack, topic)
        if number + 1 >= warm_up and (number + 1 - warm_up) % every == 0:
            seen = _look(stack, number + 1 - warm_up)
            say(str(seen))
            yield seen


def growth(first: Look, last: Look) -> list[str]:
    """Return the classes whose objects grew most, as text."""
    grown = last.bytes_of_classes.copy()
    grown.subtract(first.bytes_of_classes)
    return [f"{name} +{size / 1024:,.0f} KiB" for name, size in grown.most_common(_SHOWN) if size > 0]


def _ingest_one(stack: LocalStack, topic: str) -> None:
    server = ConnectServer(
        name="bench", host="localhost", port=stack.spark_connect.port, token=stack.spark_connect.token
    )
    secrets = JobSecrets(stack.database_url, stack.kafka_settings)
    batch_id = batches.plan(stack, topic, most=1)
    with ConnectSession(server, conf={}) as session:
        (outcome,) = ingest_batch(secrets, batch_id, session.open)
    if outcome.error is not None:
        raise RuntimeError(outcome.error)


def _look(stack: LocalStack, number: int) -> Look:
    server = psutil.Process(stack.spark_connect.process.pid)
    (jvm,) = (process for process in server.children() if process.name() == "java")
    histogram = subprocess.run(
        ["jcmd", str(jvm.pid), "GC.class_histogram"], check=True, capture_output=True, text=True, env=os.environ
    ).stdout
    classes = Counter({name: int(size) for _, size, name in _ROW.findall(histogram)})
    workers = [process.memory_info().rss for process in jvm.children(recursive=True)]
    return Look(
        number,
        classes.total() / 2**20,
        jvm.memory_info().rss / 2**20,
        len(workers),
        sum(workers) / 2**20,
        classes,
    )
