"""One partition with virtual partitions, in turns with as many real ones and with one partition that is not cut."""

from dataclasses import dataclass

from benchmarks import backlog
from benchmarks.backlog import PARTITIONS, Ingested
from local_stack.stack import LocalStack


@dataclass(frozen=True, slots=True)
class Turn:
    """The same number of messages in three forms, one after the other."""

    partitions: Ingested
    """In several partitions."""
    virtual: Ingested
    """In one partition that is cut into as many virtual ones."""
    whole: Ingested
    """In one partition that is not cut."""


def take_turn(stack: LocalStack, topic: str, count: int) -> Turn:
    """Ingest a backlog in each form, from topics of its own.

    Raises:
        RuntimeError: not every message became a work order.
    """
    return Turn(
        backlog.ingest(stack, f"{topic}-partitions", count),
        backlog.ingest(stack, f"{topic}-virtual", count, partitions=1, virtual_partitions=PARTITIONS),
        backlog.ingest(stack, f"{topic}-whole", count, partitions=1),
    )
