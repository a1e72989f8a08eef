"""The one word that stands for all partitions of a Kafka trigger: pure functions."""

from typing import Final

from workorders.kafka.partitions import PartitionState
from workorders.kafka.status.partition_status import PartitionRow, TriggerStatus

PAUSED: Final = "paused"


def word_of(status: TriggerStatus, *, is_paused: bool) -> str:
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
