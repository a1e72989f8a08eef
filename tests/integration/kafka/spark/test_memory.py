"""Memory of one ingest, whose messages all differ: it must not grow with their number."""

import subprocess
import sys

import pytest

from local_stack.stack import LocalStack
from support.ingesting import attempt, partition_of, plan
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger
from workorders.kafka.partitions import OffsetRange

pytestmark = pytest.mark.integration

FEW, MANY = 30_000, 150_000
GROWTH = 1.15
"""Of the peak, between a range of three chunks and one of fifteen."""


def peak_bytes(stack: LocalStack, connection: Connection, trigger: Trigger, partition: int, count: int) -> int:
    """Ingest `count` messages in a separate process, and return the peak of its resident memory."""
    batch_id = plan(connection, trigger, OffsetRange(partition_of(trigger.name, partition), 0, count))
    epoch = attempt(connection, batch_id).epoch
    done = subprocess.run(
        [sys.executable, "-m", "support.ingest_distinct", str(batch_id), str(epoch)],
        env=stack.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    created, peak = map(int, done.stdout.split())
    assert created == count
    return peak


def test_memory_is_the_same_for_any_number_of_keys_and_headers(
    stack: LocalStack, connection: Connection, trigger: Trigger
) -> None:
    few = peak_bytes(stack, connection, trigger, 0, FEW)
    many = peak_bytes(stack, connection, trigger, 1, MANY)
    assert many < few * GROWTH
