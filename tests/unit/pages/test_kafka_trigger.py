"""The bars of batches on the timeline of a Kafka trigger."""

from datetime import UTC, datetime, timedelta

import pytest

from workorders.kafka.ledger.batches import BatchSummary
from workorders.pages.kafka_trigger import TimelineBar, timeline

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def batch(number: int, planned: float, *, dispatched: bool = True, finished: float | None = None) -> BatchSummary:
    """Return a batch that was planned, and has finished, so many hours before now."""
    planned_at = ago(planned)
    return BatchSummary(
        id=number,
        trigger="orders",
        planned_at=planned_at,
        dispatched_at=planned_at if dispatched else None,
        finished_at=None if finished is None else ago(finished),
        partitions=1,
        created=0,
        rejected=0,
        filtered=0,
    )


def ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


def shares(bars: list[TimelineBar]) -> list[tuple[int, float, float, str]]:
    return [(bar.batch.id, bar.start, bar.width, bar.state) for bar in bars]


def test_bars_are_shares_of_the_time_since_the_first_batch_was_planned() -> None:
    found = [batch(3, 2, dispatched=False), batch(2, 4), batch(1, 8, finished=6)]
    assert shares(timeline(found, NOW)) == [
        (3, 0.75, 0.25, "planned"),
        (2, 0.5, 0.5, "dispatched"),
        (1, 0.0, 0.25, "finished"),
    ]


def test_batches_of_more_than_two_days_ago_leave_the_whole_width_to_the_newer_ones() -> None:
    assert shares(timeline([batch(2, 24, finished=12), batch(1, 48, finished=0)], NOW)) == [(2, 0.0, 0.5, "finished")]


@pytest.mark.parametrize("found", [[], [batch(1, 72)]])
def test_without_a_recent_batch_there_is_no_bar(found: list[BatchSummary]) -> None:
    assert timeline(found, NOW) == []


def test_a_batch_that_was_planned_just_now_begins_at_the_left_and_has_no_width_yet() -> None:
    assert shares(timeline([batch(1, 0)], NOW)) == [(1, 0.0, 0.0, "dispatched")]


def test_bars_stay_within_the_chart_although_the_clock_of_the_database_is_ahead() -> None:
    found = [batch(2, -0.5), batch(1, 1, finished=-1)]
    assert shares(timeline(found, NOW)) == [(2, 1.0, 0.0, "dispatched"), (1, 0.0, 1.0, "finished")]
