"""The history of work, from what was counted."""

from datetime import UTC, datetime, timedelta

import pytest

from workorders.core.history.workload_history import INTERVAL, INTERVALS, Count, WorkHistories, WorkHistory, begin_of

NOW = datetime(2026, 3, 1, 12, 4, tzinfo=UTC)
CURRENT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def count(ago: int, created: int, waiting: int | None = None, *, trigger: str = "orders") -> Count:
    """Return what was counted two minutes ago of the interval that began so many intervals before the current one."""
    return Count(trigger, "ship", CURRENT - ago * INTERVAL, NOW - timedelta(minutes=2), created, waiting)


def of_trigger(*counts: Count, now: datetime = NOW, name: str = "orders") -> WorkHistory:
    found = WorkHistories(counts, now).of_trigger(name)
    assert found is not None
    return found


def test_an_interval_without_a_count_has_nothing_known_to_wait_and_one_with_a_count_of_others_has_none() -> None:
    counts = [count(0, 1, 7), count(2, 4), count(3, 0, 9, trigger="other")]
    assert list(of_trigger(*counts).waiting[-4:]) == [0, None, None, 7]


def test_what_was_created_is_known_up_to_the_last_count() -> None:
    found = of_trigger(count(0, 5, 0), count(35, 8), now=NOW + 2 * INTERVAL)
    assert len(found.created) == INTERVALS
    assert list(found.created[-4:]) == [0, 5, None, None]
    assert of_trigger(count(0, 5, 0), count(35, 8)).created[0] == 8


def test_a_workflow_has_the_sum_of_its_triggers() -> None:
    counts = [count(0, 5, 1), count(0, 6, 2, trigger="other")]
    found = WorkHistories(counts, NOW).of_workflow("ship")
    assert found is not None
    assert (found.created[-1], found.waiting[-1]) == (11, 3)
    assert of_trigger(*counts).created[-1] == 5


def test_the_rate_is_the_mean_of_the_newest_intervals_up_to_the_count() -> None:
    counts = [count(0, 2, 0), count(1, 10), count(2, 10), count(3, 1_000)]
    assert of_trigger(*counts).created_per_minute == pytest.approx(1)  # 22 within 22 minutes
    assert of_trigger(*counts, name="without work orders").created_per_minute == 0


def test_the_rate_is_unknown_when_the_count_is_old() -> None:
    assert of_trigger(count(0, 2, 0), now=NOW + timedelta(minutes=18)).created_per_minute is not None
    assert of_trigger(count(0, 2, 0), now=NOW + timedelta(minutes=19)).created_per_minute is None


def test_without_a_count_nothing_is_known() -> None:
    histories = WorkHistories([], NOW)
    assert (histories.of_trigger("orders"), histories.of_workflow("ship")) == (None, None)


def test_an_interval_begins_at_a_whole_ten_minutes() -> None:
    assert begin_of(NOW) == CURRENT
    assert begin_of(CURRENT) == CURRENT
