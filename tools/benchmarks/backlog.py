"""A large backlog as one batch: by the whole Spark application, and by a warm Spark Connect server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import psutil

from benchmarks import batches, messages
from benchmarks.spark_submit import APPLICATION, run_on_server, submit
from local_stack.stack import LocalStack

PARTITIONS = 4


@dataclass(frozen=True, slots=True)
class Ingested:
    """One run over all messages."""

    messages: int
    working_seconds: float
    """From the first rows in Postgres, or the first record batch in Python, to the last commit."""
    total_seconds: float
    """From the start of the process to its end, or to the last commit of one that does not end by itself."""


def ingest(
    stack: LocalStack,
    topic: str,
    count: int,
    *,
    partitions: int = PARTITIONS,
    virtual_partitions: int = 1,
) -> Ingested:
    """Produce a backlog into a new topic, plan it as one batch and ingest it.

    Raises:
        RuntimeError: not every message became a work order.
    """
    messages.create_topics(stack.bootstrap_servers, [topic], partitions)
    messages.produce(stack.bootstrap_servers, topic, partitions, count)
    return _ingest(
        stack,
        batches.plan(stack, topic, most=count, virtual_partitions=virtual_partitions),
        count,
        lambda arguments, watch: submit(stack, APPLICATION, arguments, watch),
    )


def ingest_on_server(
    stack: LocalStack,
    topic: str,
    count: int,
    trigger: str,
    *,
    fields: Mapping[str, object] | None = None,
    variables: Mapping[str, str] | None = None,
) -> Ingested:
    """Plan all messages of a topic as one batch of a new trigger, and ingest it on the stack's Spark Connect server.

    Args:
        stack: where it works; its server runs.
        topic: the topic.
        count: its messages.
        trigger: name of the trigger.
        fields: other fields of the trigger.
        variables: what the driver needs in its environment besides the stack's variables.

    Raises:
        RuntimeError: not every message became a work order.
    """
    return _ingest(
        stack,
        batches.plan(stack, topic, most=count, trigger=trigger, **(fields or {})),
        count,
        lambda arguments, watch: run_on_server(stack, arguments, variables, watch),
    )


def _ingest(
    stack: LocalStack, batch_id: int, count: int, run: Callable[[list[str], Callable[[psutil.Process], None]], float]
) -> Ingested:
    progress = batches.Progress(stack.database_url, batch_id)

    seconds = run(["--batch", str(batch_id)], progress.watch)
    there = batches.created(stack.database_url, batch_id)
    if there != count or progress.begun is None or progress.ended is None:
        raise RuntimeError(f"Batch {batch_id} made {there} work orders of {count} messages.")
    return Ingested(count, progress.ended - progress.begun, seconds)
