"""What a stack costs while many Kafka triggers wait and no message comes: CPU of every process, and connections."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import batches, messages, stack_processes, trigger_files
from benchmarks.stack_processes import cpu_seconds, kafka_connections, sessions
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
        triggers: how many, each with its own topic.
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
        parts = stack_processes.parts(stack)
        before, begun = {part: cpu_seconds(pid) for part, pid in parts.items()}, time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - begun
        cores = {part: (cpu_seconds(pid) - before[part]) / passed for part, pid in parts.items()}
        return Idle(cores, kafka_connections(stack, [stack.airflow.triggerer.process.pid]), sessions(stack))
