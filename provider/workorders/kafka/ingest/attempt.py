"""One attempt at one range: what the executor is told, and what it answers. Both travel through Spark."""

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
    """Where reading begins: the range's start, or behind it where a replay finds that Kafka deleted the beginning."""
    replayed: int | None = None
    """How many messages the first ingest found; None for a range that was never ingested."""
    generation: int = 0
    """Which log of the topic the offsets belong to; see `ledger.stream_name`."""
    max_rejected_share: float | None = None
    """With a larger share of rejected messages nothing is committed; None for no limit."""

    @property
    def is_replay(self) -> bool:
        """Whether the range was ingested before."""
        return self.replayed is not None


@dataclass(frozen=True, slots=True)
class RangeOutcome:
    """What became of one range in one attempt."""

    range: OffsetRange
    created: Created
    seconds: float
    error: str | None = None
    """One plain sentence; None when the range is ingested."""
    fenced: bool = False
    """A newer attempt took over. What became of the range is that one's to say, even if all is well."""
    too_many_rejected: bool = False
    """The breaker has tripped. The messages stay the same, so the next try is not soon."""
