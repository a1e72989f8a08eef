"""Cuts ranges into virtual partitions, and refuses to where order is needed: pure functions, no I/O."""

from itertools import pairwise
from typing import Final

from workorders.core.exceptions import ConfigurationError
from workorders.core.workflows import Workflow
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.partitions import OffsetRange, VirtualPartition

MIN_MESSAGES: Final = 1000
"""Minimum of offsets in a virtual partition. The transaction, the connection, and Spark's task of a smaller one cost
more than its messages, so a trickle is not cut."""


def cut(range_: OffsetRange, count: int) -> tuple[VirtualPartition, ...]:
    """Return at most `count` virtual partitions of one size, without gaps; none if the range is too small to be cut."""
    size = range_.end - range_.start
    count = min(count, size // MIN_MESSAGES)
    if count < 2:  # noqa: PLR2004 - one is the range itself
        return ()
    ends = [range_.start + size * number // count for number in range(count + 1)]
    return tuple(VirtualPartition(range_.partition, start, end, range_) for start, end in pairwise(ends))


def require_no_order(definition: KafkaTriggerDefinition, workflow: Workflow) -> None:
    """Refuse the virtual partitions of a trigger for a workflow whose runs need the order of the messages.

    Raises:
        ConfigurationError: the workflow has an ordering key, or runs one work order at a time.
    """
    if workflow.definition is not None and workflow.definition.ordering_key is not None:
        reason = f"has the ordering_key {workflow.definition.ordering_key}"
    elif workflow.concurrency == 1:
        reason = "has concurrency: 1"
    else:
        return
    raise ConfigurationError(
        f"{definition.name}: virtual_partitions: expected 1, because workflow {workflow.name} {reason} and virtual "
        f"partitions are written in any order, got {definition.virtual_partitions}. Nothing was planned or read; "
        f"remove virtual_partitions from the trigger's file, or the order from the workflow."
    )
