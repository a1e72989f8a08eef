"""The whole Spark application on a large backlog, in turns with raw COPY on as many connections as it has cores."""

from dataclasses import dataclass

import psutil

from benchmarks import batches, messages
from benchmarks.spark_submit import APPLICATION, submit
from local_stack.stack import LocalStack

PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Ingested:
    """One run of the application."""

    messages: int
    working_seconds: float
    """From the first record batch in Python to the last commit."""
    total_seconds: float
    """From the start of `spark-submit` to its end."""


def ingest(
    stack: LocalStack,
    topic: str,
    count: int,
    *,
    partitions: int = PARTITIONS,
    virtual_partitions: int = 1,
    conf: dict[str, str] | None = None,
) -> Ingested:
    """Produce a backlog into a new topic, plan it as one batch and ingest it.

    Raises:
        RuntimeError: not every message became a work order.
    """
    messages.create_topics(stack.bootstrap_servers, [topic], partitions)
    messages.produce(stack.bootstrap_servers, topic, partitions, count)
    batch_id = batches.plan(stack, topic, most=count, virtual_partitions=virtual_partitions)
    progress = batches.Progress(stack.database_url, batch_id)

    def watch(process: psutil.Process) -> None:
        progress.watch(process)

    seconds = submit(stack, APPLICATION, ["--batch", str(batch_id)], conf=conf, while_running=watch)
    there = batches.created(stack.database_url, batch_id)
    if there != count or progress.begun is None or progress.ended is None:
        raise RuntimeError(f"Batch {batch_id} made {there} work orders of {count} messages.")
    return Ingested(count, progress.ended - progress.begun, seconds)
