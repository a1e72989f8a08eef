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


def take_turn(stack: LocalStack, topic: str, count: int, *, backwards: bool) -> Turn:
    """Ingest a backlog in each form, from its own topics; `backwards` changes which one comes first.

    Raises:
        RuntimeError: not every message became a work order.
    """
    forms = {"partitions": (PARTITIONS, 1), "virtual": (1, PARTITIONS), "whole": (1, 1)}
    done: dict[str, Ingested] = {}
    for name in sorted(forms, reverse=backwards):
        real, cut = forms[name]
        done[name] = backlog.ingest(stack, f"{topic}-{name}", count, partitions=real, virtual_partitions=cut)
    return Turn(**done)
