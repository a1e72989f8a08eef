"""What an audit concludes from a ledger, its ranges, and the decisions about it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from workorders.audit.findings import Check
from workorders.audit.partitions import (
    FinishedRange,
    Interval,
    Ledger,
    Move,
    StoredCounts,
    check_counts,
    check_ranges,
    uncovered,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
LEDGER = Ledger(
    trigger_id=1,
    trigger="orders",
    topic="orders",
    partition=0,
    topic_id="id",
    generation=0,
    start_offset=0,
    next_offset=30,
    stored_end=30,
    stream_id=1,
    stream="orders/0@id",
    last_stored=29,
    counts=(30, 0, 0, 0),
    moves=(),
    held_start=None,
    held_end=None,
    held_is_same_log=None,
    is_known_log=True,
    is_first_log=True,
    deletes_before=None,
    may_begin_late=False,
)
COUNTS = StoredCounts(7, 0, 10, 8, 2, 0, 0, None, 10, 10, is_read_twice=False)


def finished(start: int, end: int) -> FinishedRange:
    return FinishedRange(start, start, end, end - start, 0, 0, 0, None)


def found(ledger: Ledger, ranges: Sequence[FinishedRange], *moves: Move) -> list[tuple[Check, int | None, int | None]]:
    findings = check_ranges(replace(ledger, moves=moves), ranges)
    return [(finding.check, finding.start, finding.end) for finding in findings]


WHOLE = [finished(0, 10), finished(10, 20), finished(20, 30)]
HOLE = [finished(0, 10), finished(20, 30)]


def test_ranges_that_cover_everything_once_are_right() -> None:
    assert found(LEDGER, WHOLE) == []


def test_a_hole_that_no_decision_skipped_is_found() -> None:
    holed = replace(LEDGER, counts=(20, 0, 0, 0))
    assert found(holed, HOLE) == [(Check.RANGES, 10, 20)]
    assert found(holed, HOLE, (10, 15)) == [(Check.RANGES, 15, 20)]
    assert found(holed, HOLE, (15, 20), (10, 15)) == []


def test_a_log_that_begins_late_is_right_only_if_retention_may_have_deleted_its_beginning() -> None:
    late = WHOLE[1:]
    assert found(replace(LEDGER, counts=(20, 0, 0, 0)), late) == [(Check.RANGES, 0, 10)]
    assert found(replace(LEDGER, may_begin_late=True), late) == []
    assert found(replace(LEDGER, may_begin_late=True), []) == []
    assert found(replace(LEDGER, may_begin_late=True), HOLE) == [(Check.RANGES, 10, 20)]


def test_offsets_in_two_ranges_are_right_only_after_a_decision_to_go_back() -> None:
    twice = [finished(0, 20), finished(5, 10), finished(20, 30)]
    ledger = replace(LEDGER, counts=(35, 0, 0, 0))
    assert found(ledger, twice) == [(Check.RANGES, 5, 10)]
    assert found(ledger, twice, (20, 7)) == [(Check.RANGES, 5, 7)]
    assert found(ledger, twice, (20, 5)) == []


def test_a_ledger_before_its_ranges_is_right_only_after_a_decision_to_go_back() -> None:
    behind = replace(LEDGER, next_offset=25)
    assert found(behind, WHOLE) == [(Check.LEDGER, 25, 30)]
    assert found(behind, WHOLE, (30, 25)) == []


def test_a_gap_after_a_ledger_that_was_set_back_before_its_start_is_right() -> None:
    back = replace(LEDGER, next_offset=5)
    assert found(back, [finished(0, 5), finished(10, 35)], (35, 0)) == []


@pytest.mark.parametrize(
    ("changes", "is_found"),
    [
        ({}, False),
        ({"counts": (31, 0, 0, 0)}, True),
        ({"counts": (29, 1, 0, 0)}, True),
        # The ranges of an earlier log count as well, and may be deleted.
        ({"counts": (31, 0, 0, 0), "is_first_log": False}, False),
        ({"counts": (29, 9, 9, 9), "is_first_log": False}, True),
    ],
)
def test_the_ledger_counts_what_its_ranges_count(changes: dict[str, object], *, is_found: bool) -> None:
    assert bool(found(replace(LEDGER, **changes), WHOLE)) is is_found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "is_found"),
    [
        ({}, False),
        ({"orders": 9, "positions": 9}, True),
        ({"orders": 11, "positions": 11}, True),
        ({"orders": 11, "positions": 11, "is_read_twice": True}, False),
        ({"orders": 11, "positions": 10}, True),
        ({"created": 5, "existing": 3, "orders": 8, "positions": 8}, True),
    ],
)
def test_a_range_has_as_many_work_orders_as_it_counted(changes: dict[str, object], *, is_found: bool) -> None:
    counts = replace(COUNTS, **changes)  # type: ignore[arg-type]
    assert bool(list(check_counts(LEDGER, counts))) is is_found


def test_what_existed_before_a_batch_may_be_deleted_by_retention() -> None:
    ledger = replace(LEDGER, deletes_before=NOW - timedelta(days=2))
    for orders, findings in ((8, 0), (6, 1)):
        counts = replace(COUNTS, created=5, existing=3, orders=orders, positions=orders)
        assert len(list(check_counts(ledger, counts))) == findings


def test_offsets_that_were_read_again_may_have_more_work_orders() -> None:
    more = replace(COUNTS, orders=11, positions=11)
    assert list(check_counts(replace(LEDGER, moves=[(20, 9)]), more)) == []
    assert len(list(check_counts(replace(LEDGER, moves=[(20, 10)]), more))) == 1


@pytest.mark.parametrize(
    ("by", "left"),
    [
        ([], [(0, 10)]),
        ([(2, 4), (3, 6)], [(0, 2), (6, 10)]),
        ([(0, 20)], []),
        ([(5, 5), (9, 2)], [(0, 10)]),
        ([(20, 30), (8, 12)], [(0, 8)]),
        ([(0, 8), (2, 4), (20, 30)], [(8, 10)]),
        ([(20, 30)], [(0, 10)]),
    ],
)
def test_the_parts_that_no_other_interval_covers(by: list[Interval], left: list[Interval]) -> None:
    assert list(uncovered((0, 10), by)) == left
    assert list(uncovered((4, 4), by)) == []
