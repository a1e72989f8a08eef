"""What a stack costs while many Kafka triggers wait and no message comes: CPU of every process, and connections."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import psycopg

from benchmarks import batches, messages, trigger_files
from benchmarks.steady import until_waiting
from local_stack.stack import LocalStack

PARTITIONS: Final = 4
# The local stack reads Dag files more often, to show a change of a trigger's file soon. This is Airflow's default.
_SETTINGS: Final = {"AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30"}


@dataclass(frozen=True, slots=True)
class Idle:
    """What an idle stack uses."""

    cores_by_part: dict[str, float]
    """Of each part with all its processes."""
    kafka_connections: int
    """Of the triggerer."""
    sessions: int
    """In the database of the work orders."""


def measure(triggers: int, settle_seconds: float, seconds: float, say: Callable[[str], None]) -> Idle:
    """Let so many triggers wait, and return what the stack uses.

    The triggers come to a running stack, and begin at the ends of topics that are empty.

    Args:
        triggers: how many, each with a topic of its own.
        settle_seconds: from the moment at which the last trigger waits to the beginning of the measurement.
        seconds: how long to measure.
        say: what to do with a line of progress.
    """
    with (
        tempfile.TemporaryDirectory(prefix="triggers-") as folder,
        LocalStack(
            airflow=True,
            spark_connect=True,
            triggers_folder=Path(folder),
            environment=_SETTINGS,
            name="bench-idle",
            say=say,
        ) as stack,
    ):
        names = [f"idle_{number:03}" for number in range(triggers)]
        topics = [trigger_files.write(Path(folder), name) for name in names]
        messages.create_topics(stack.bootstrap_servers, topics, PARTITIONS)
        for name, topic in zip(names, topics, strict=True):
            batches.seed(stack, topic, trigger=name)
        until_waiting(stack, triggers)
        time.sleep(settle_seconds)
        parts = _parts(stack)
        before, begun = {part: _cpu_seconds(pid) for part, pid in parts.items()}, time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - begun
        cores = {part: (_cpu_seconds(pid) - before[part]) / passed for part, pid in parts.items()}
        return Idle(cores, _kafka_connections(stack), _sessions(stack))


def _parts(stack: LocalStack) -> dict[str, int]:
    return {
        **{f"Airflow's {component.name}": component.process.pid for component in stack.airflow.components},
        "Postgres": stack.postgres.process.pid,
        "Kafka": stack.kafka.process.pid,
        "Spark Connect server": stack.spark_connect.process.pid,
    }


def _kafka_connections(stack: LocalStack) -> int:
    triggerer, port = psutil.Process(stack.airflow.triggerer.process.pid), int(stack.bootstrap_servers.split(":")[1])
    processes = [triggerer, *triggerer.children(recursive=True)]
    connections = [connection for process in processes for connection in process.net_connections("tcp")]
    return sum(bool(connection.raddr) and connection.raddr.port == port for connection in connections)


def _sessions(stack: LocalStack) -> int:
    with psycopg.connect(stack.database_url) as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        return sum(count for (count,) in connection.execute(query))


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its descendants, those that have ended included."""
    root = psutil.Process(pid)
    total = 0.0
    for process in [root, *root.children(recursive=True)]:
        try:
            total += sum(process.cpu_times()[:4])  # user, system, and both of the children that have ended
        except psutil.NoSuchProcess:
            continue
    return total
