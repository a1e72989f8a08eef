"""The one word that stands for a Kafka trigger, or for the work of a workflow. Pure."""

from typing import Final

from workorders.core.history.workload import Workload
from workorders.kafka.partitions import PartitionState
from workorders.kafka.status.partition_status import PartitionRow, TriggerStatus
from workorders.monitoring.problems import NOT_RUNNING

PAUSED: Final = "paused"


def word_of_trigger(status: TriggerStatus, *, is_paused: bool) -> str:
    """Return the worst state of a trigger's partitions; `paused` if its listener is paused and nothing is wrong."""
    states = [row.state for row in status.partitions]
    worst = min(states, key=lambda state: state.rank, default=PartitionState.NOT_PLANNED)
    return PAUSED if is_paused and not worst.needs_attention else worst


def severity(word: str) -> int:
    """Return the place of a trigger's word in a list: the worst first."""
    return len(PartitionState) if word == PAUSED else PartitionState(word).rank


def rank(row: PartitionRow) -> tuple[int, int, str, int]:
    """Return the place of a partition in a list: the worst first, then the greatest lag."""
    return row.state.rank, -(row.lag or 0), row.topic, row.partition


def word_of_workflow(work: Workload, *, is_stuck: bool, is_paused: bool) -> str:
    """Return what a workflow does."""
    if is_stuck:
        return NOT_RUNNING
    if is_paused:
        return PAUSED
    if work.running:
        return "running"
    return "waiting" if work.waiting else "idle"
