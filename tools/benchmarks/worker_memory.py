"""The memory of Spark's Python worker, while it ingests partitions of very different length."""

import contextlib

import psutil

from benchmarks import batches, messages
from benchmarks.spark_submit import APPLICATION, submit
from local_stack.stack import LocalStack

# A look goes through all processes of the machine; more of them would slow down what is watched.
_PAUSE_SECONDS = 0.2


def peak_mib(stack: LocalStack, topic: str, count: int) -> float:
    """Ingest `count` messages of one partition; return the peak of the largest worker's resident memory, in MiB."""
    messages.create_topics(stack.bootstrap_servers, [topic], 1)
    messages.produce(stack.bootstrap_servers, topic, 1, count)
    batch_id = batches.plan(stack, topic, most=count)
    peak = 0

    def watch(process: psutil.Process) -> None:
        nonlocal peak
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            peak = max(peak, _largest_worker(process))
            with contextlib.suppress(psutil.TimeoutExpired):
                process.wait(_PAUSE_SECONDS)

    submit(stack, APPLICATION, ["--batch", str(batch_id)], while_running=watch)
    there = batches.created(stack.database_url, batch_id)
    if there != count or not peak:
        raise RuntimeError(f"Batch {batch_id} made {there} work orders of {count} messages; no worker was seen.")
    return peak / 2**20


def _largest_worker(process: psutil.Process) -> int:
    """Return the resident bytes of the largest Python worker: a descendant that the daemon forked."""
    largest = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in process.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if any("pyspark.daemon" in part or "pyspark/daemon" in part for part in child.cmdline()):
                    largest = max(largest, child.memory_info().rss)
    return largest
