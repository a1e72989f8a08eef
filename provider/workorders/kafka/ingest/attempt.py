"""One attempt at one range, and its result. Both are sent through Spark."""

from dataclasses import dataclass

from workorders.core.creation.work_orders import Created
from workorders.core.triggers import Trigger
from workorders.kafka.partitions import OffsetRange


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at one range of a batch."""

    batch_id: int
    trigger: Trigger
    range: OffsetRange
    epoch: int
    """The attempt's number; an attempt with an older one changes nothing."""
    read_from: int
    """First offset to read: the range's start, or later if a replay finds that Kafka deleted the start."""
    replayed: int | None = None
    """Number of messages that the first ingest found; None for a range that was never ingested."""
    generation: int = 0
    """Log of the topic that the offsets belong to; see `positions.stream_name`."""
    max_rejected_share: float | None = None
    """Maximum share of rejected messages; above it nothing is committed. None for no limit."""

    @property
    def is_replay(self) -> bool:
        """Whether the range was ingested before."""
        return self.replayed is not None


@dataclass(frozen=True, slots=True)
class RangeOutcome:
    """Result of one attempt at one range."""

    range: OffsetRange
    created: Created
    seconds: float
    error: str | None = None
    """One sentence; None if the range was ingested."""
    fenced: bool = False
    """Whether a newer attempt took over, which alone reports the range's result."""
    too_many_rejected: bool = False
    """Whether the breaker tripped. The messages stay the same, so the next try is late."""
