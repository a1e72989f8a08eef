"""The table at the end of a task's log: one line for each partition."""

from collections.abc import Sequence

from workorders.kafka.ingest.attempt import RangeOutcome
from workorders.text_table import text_table

_HEADINGS = ("partition", "offsets", "created", "rejected", "existing", "filtered", "seconds", "")
_NUMBERS = range(2, 7)


def outcome_table(outcomes: Sequence[RangeOutcome]) -> str:
    """Return the outcomes as an aligned table of plain text, sorted by partition."""
    return text_table([_HEADINGS, *_rows(outcomes)], right=_NUMBERS)


def outcome_lines(outcomes: Sequence[RangeOutcome]) -> str:
    """Return the outcomes of a round of a growing batch: the same table without its headings."""
    return text_table(_rows(outcomes), right=_NUMBERS)


def _rows(outcomes: Sequence[RangeOutcome]) -> list[tuple[str, ...]]:
    return [_cells(outcome) for outcome in sorted(outcomes, key=lambda outcome: outcome.range)]


def _cells(outcome: RangeOutcome) -> tuple[str, ...]:
    partition, range_ = outcome.range.partition, outcome.range
    place = (f"{partition.topic} {partition.partition}", f"[{range_.start}, {range_.end})")
    if outcome.error is not None:
        return (*place, "-", "-", "-", "-", f"{outcome.seconds:.1f}", "stalled")
    created = outcome.created
    counts = (created.created, created.rejected, created.existing, created.filtered)
    return (*place, *(f"{count:,}" for count in counts), f"{outcome.seconds:.1f}", "done")
