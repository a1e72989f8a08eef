"""One attempt at one range, and its result. Both are sent through Spark."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workorders.core.creation.work_orders import Created
from workorders.core.triggers import Trigger
from workorders.kafka.ledger.batches import Batch, BatchRange
from workorders.kafka.ledger.positions import stream_name
from workorders.kafka.partitions import OffsetRange, VirtualPartition


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at one range of a batch, or at one virtual partition of a range."""

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
    stored_end: int = 0
    """Highest end of what was stored of this log when the attempt began."""
    max_rejected_share: float | None = None
    """Maximum share of rejected messages; above it nothing is committed. None for no limit."""
    dead_letter_topic: str | None = None
    """Topic that gets the messages that cannot be inputs; None for none."""

    @classmethod
    def at(cls, batch: Batch, range_: BatchRange, epoch: int, read_from: int) -> "Attempt":
        """Return the attempt at a range, or at a virtual partition, that begins to read at an offset."""
        return cls(
            batch_id=batch.id,
            trigger=batch.trigger,
            range=range_.range,
            epoch=epoch,
            read_from=read_from,
            replayed=range_.messages,
            generation=range_.generation,
            stored_end=range_.stored_end,
            max_rejected_share=batch.definition.get("max_rejected_share"),
            dead_letter_topic=batch.definition.get("dead_letter_topic"),
        )

    @property
    def stream(self) -> str:
        """Return the core's name of the partition."""
        return stream_name(self.range.partition, self.generation)

    @property
    def offsets(self) -> int:
        """Return the number of offsets to read."""
        return self.range.end - self.read_from

    @property
    def is_replay(self) -> bool:
        """Whether the range was ingested before."""
        return self.replayed is not None


@dataclass(frozen=True, slots=True)
class RangeOutcome:
    """Result of one attempt at one range; Spark's Python workers return it as JSON."""

    range: VirtualPartition | OffsetRange
    created: Created
    seconds: float
    error: str | None = None
    """One sentence; None if the range was ingested."""
    fenced: bool = False
    """Whether a newer attempt took over, which alone reports the range's result."""


def combine(outcomes: Iterable[RangeOutcome]) -> list[RangeOutcome]:
    """Return one outcome for each range of a batch; the outcomes of its virtual partitions are added up.

    The error is that of the first virtual partition that failed: the ledger does not move over it.
    """
    by_range: defaultdict[OffsetRange, list[RangeOutcome]] = defaultdict(list)
    for outcome in outcomes:
        by_range[outcome.range.planned].append(outcome)
    return [_combine(range_, outcomes) for range_, outcomes in by_range.items()]


def _combine(range_: OffsetRange, outcomes: Sequence[RangeOutcome]) -> RangeOutcome:
    in_order = sorted(outcomes, key=lambda outcome: outcome.range.start)
    errors = [outcome.error for outcome in in_order if outcome.error is not None]
    error = errors[0] if errors else None
    if len(errors) > 1:
        error = f"{error} {len(errors) - 1} more of its virtual partitions failed."
    return RangeOutcome(
        range_,
        sum((outcome.created for outcome in outcomes), Created()),
        max(outcome.seconds for outcome in outcomes),
        error,
        any(outcome.fenced for outcome in outcomes),
    )
