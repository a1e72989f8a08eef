"""The states of a partition, with what follows from each."""

from enum import StrEnum
from typing import Final


class PartitionState(StrEnum):
    """Whether a partition advances, and if not, why; the worst first."""

    TOPIC_RECREATED = "topic re-created"
    MESSAGES_DELETED = "unread messages deleted"
    LOG_TRUNCATED = "log truncated"
    NOT_IN_KAFKA = "not in Kafka"
    STALLED = "stalled"
    """The last attempt failed."""
    OPEN_TRANSACTION = "waiting for an open transaction"
    BEHIND = "behind"
    IN_BATCH = "in batch"
    NOT_PLANNED = "not planned yet"
    UNKNOWN = "?"
    """Kafka did not answer; the problem of the trigger has the reason."""
    UP_TO_DATE = "up to date"
    TOPIC_DELETED = "topic deleted"
    """The planner records a stall if a topic is gone that the trigger names, so this is one that a pattern matched:
    nothing is left to do for it."""

    @property
    def rank(self) -> int:
        """Return the place in a list that begins with the worst."""
        return _RANKS[self]

    @property
    def tone(self) -> str:
        """Return the kind of its color: bad, warn, busy, good, or idle."""
        return _TONES[self]

    @property
    def is_contradiction(self) -> bool:
        """Return whether the ledger and Kafka contradict each other, so that a person decides how it continues."""
        return self.rank < PartitionState.STALLED.rank

    @property
    def needs_attention(self) -> bool:
        """Return whether the partition stays where it is until someone or something else changes."""
        return self.rank <= PartitionState.STALLED.rank


_RANKS: Final = {state: rank for rank, state in enumerate(PartitionState)}
_TONES: Final = {
    **dict.fromkeys((state for state in PartitionState if state.needs_attention), "bad"),
    PartitionState.OPEN_TRANSACTION: "warn",
    PartitionState.BEHIND: "warn",
    PartitionState.IN_BATCH: "busy",
    PartitionState.NOT_PLANNED: "warn",
    PartitionState.UNKNOWN: "idle",
    PartitionState.UP_TO_DATE: "good",
    PartitionState.TOPIC_DELETED: "idle",
}
