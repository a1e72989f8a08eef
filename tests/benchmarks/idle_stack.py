"""What a stack costs while many Kafka triggers wait and no message comes: CPU of every process."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil

from benchmarks import batches, messages, trigger_files
from benchmarks.steady import until_waiting
from local_stack.stack import LocalStack

PARTITIONS: Final = 4
# The local stack reads Dag files more often, to show a change of a trigger's file soon. This is Airflow's default.
_SETTINGS: Final = {"AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30"}


def cores_by_part(triggers: int, settle_seconds: float, seconds: float, say: Callable[[str], None]) -> dict[str, float]:
    """Let so many triggers wait, and return how many cores each part of the stack uses, with all its processes.

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
        return {part: (_cpu_seconds(pid) - before[part]) / passed for part, pid in parts.items()}


def _parts(stack: LocalStack) -> dict[str, int]:
    return {
        **{f"Airflow's {component.name}": component.process.pid for component in stack.airflow.components},
        "Postgres": stack.postgres.process.pid,
        "Kafka": stack.kafka.process.pid,
        "Spark Connect server": stack.spark_connect.process.pid,
    }


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
