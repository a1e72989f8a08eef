"""The one word that stands for all partitions of a Kafka trigger: pure functions."""

from typing import Final

from workorders.kafka.status.partition_status import OPEN_TRANSACTION, TOPIC_DELETED, PartitionRow, TriggerStatus

UNDECIDED: Final = ("topic re-created", "unread messages deleted", "log truncated", "not in Kafka")
"""States in which the ledger and Kafka contradict each other, so that a person decides how the partition continues."""
STALLED: Final = "stalled"
PAUSED: Final = "paused"
NOT_ASKED: Final = "?"
_IN_BATCH: Final = "in batch"
_WORST_FIRST: Final = (
    *UNDECIDED,
    STALLED,
    OPEN_TRANSACTION,
    "behind",
    _IN_BATCH,
    "not planned yet",
    NOT_ASKED,
    "up to date",
    TOPIC_DELETED,
)


def word_of(status: TriggerStatus, *, is_paused: bool) -> str:
    """Return the worst state of a trigger's partitions; `paused` if its listener is paused and nothing is wrong."""
    words = {_without_number(row.status) for row in status.partitions}
    worst = next((word for word in _WORST_FIRST if word in words), "not planned yet")
    return PAUSED if is_paused and worst not in {*UNDECIDED, STALLED} else worst


def severity(word: str) -> int:
    """Return the place of a trigger's word in a list: the worst first."""
    return _WORST_FIRST.index(word) if word in _WORST_FIRST else len(_WORST_FIRST)


def rank(row: PartitionRow) -> tuple[int, int, str, int]:
    """Return the place of a partition in a list: the worst first, then the greatest lag."""
    return severity(_without_number(row.status)), -(row.lag or 0), row.topic, row.partition


def _without_number(status: str) -> str:
    return _IN_BATCH if status.startswith(_IN_BATCH) else status
