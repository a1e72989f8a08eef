"""What needs a person comes first, with the page that helps."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from workorders.kafka.partitions import PartitionState
from workorders.kafka.status.partition_status import PartitionRow, TriggerStatus
from workorders.monitoring.problems import Problem, Subject, find_problems
from workorders.pages import needs
from workorders.pages.kafka_state import rank, word_of
from workorders.pages.overview import KafkaLine, Overview, facts_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROW = PartitionRow(
    topic="orders",
    partition=0,
    topic_id="t",
    next_offset=5,
    committed_offset=5,
    last_stable=5,
    high_watermark=5,
    lag=0,
    committed_lag=0,
    state=PartitionState.UP_TO_DATE,
)
STALLED = replace(ROW, partition=1, state=PartitionState.STALLED, since=NOW, last_error="first line\nsecond line")
PROBLEM = Problem(about=Subject.TRIGGER, key="orders", subject="orders: orders 1", state="stalled", sentence="no")


def line(*rows: PartitionRow, is_paused: bool = False, problem: str | None = None, asked: bool = True) -> KafkaLine:
    status = TriggerStatus("orders", "ship", "g", "kafka_default", problem, rows)
    return KafkaLine(status, None, is_paused, asked_kafka=asked)


def problems_of(*lines: KafkaLine) -> list[str]:
    found = Overview(
        kafka=lines,
        others=[],
        listed_until=None,
        workflows=[],
        idle=[],
        counts=None,
        shards=[],
        holds=[],
        jobs=[],
        samples=[],
        shows_outbox=True,
        asked_kafka=True,
    )
    return [problem.state for problem in find_problems(facts_of(found))]


@pytest.mark.parametrize(
    ("problem", "page", "button"),
    [
        (PROBLEM, ("kafka", "orders"), "See why"),
        (replace(PROBLEM, state="topic re-created"), ("kafka", "orders"), "Decide"),
        (replace(PROBLEM, state="paused"), ("kafka", "orders"), "Look at the trigger"),
        (
            replace(PROBLEM, about=Subject.WORKFLOW, key="ship", state="not running"),
            ("workflows", "ship"),
            "Look at the workflow",
        ),
        (replace(PROBLEM, about=Subject.SHARD, key="0", state="failing"), ("outbox",), "Look at the outbox"),
        (replace(PROBLEM, about=Subject.HOLD, key="7", state="held"), ("outbox", "holds", "7"), "Release or purge"),
        (replace(PROBLEM, about=Subject.JOB, key="9", state="failed"), ("jobs", "9"), "See the job"),
    ],
)
def test_each_problem_leads_to_the_page_that_helps(problem: Problem, page: tuple[str, ...], button: str) -> None:
    (need,) = needs.of([problem]).shown
    assert (need.page, need.button) == (page, button)


def test_what_is_worst_comes_first_and_then_what_has_lasted_longest() -> None:
    late = replace(PROBLEM, state="late", subject="late")
    new, old = (replace(PROBLEM, since=NOW - timedelta(hours=hours), subject=f"{hours} h") for hours in (1, 9))
    shard = replace(PROBLEM, about=Subject.SHARD, state="failing", subject="shard")
    found = needs.of([late, new, shard, old])
    assert [need.problem.subject for need in found.shown] == ["shard", "9 h", "1 h", "late"]
    assert (found.total, found.hidden) == (4, 0)


def test_more_than_a_page_shows_are_counted_and_the_worst_of_them_are_shown() -> None:
    late = [replace(PROBLEM, state="late", subject=f"late {number}") for number in range(57)]
    bad = [replace(PROBLEM, since=NOW - timedelta(hours=hours), subject=f"{hours} h") for hours in (1, 9, 3)]
    found = needs.of([*late, *bad])
    assert (len(found.shown), found.total, found.hidden) == (50, 60, 10)
    assert [need.problem.subject for need in found.shown[:4]] == ["9 h", "3 h", "1 h", "late 0"]


def test_the_overview_knows_partitions_and_paused_listeners() -> None:
    assert problems_of(line(ROW, STALLED)) == ["stalled"]
    assert problems_of(line(ROW, is_paused=True)) == []
    assert problems_of(line(replace(ROW, lag=4, state=PartitionState.BEHIND), is_paused=True)) == ["paused"]
    retired = replace(line(replace(ROW, lag=4, state=PartitionState.BEHIND)), has_listener=False)
    assert problems_of(retired) == ["paused"]


def test_that_kafka_is_being_asked_is_no_problem_and_that_it_does_not_answer_is_one() -> None:
    assert problems_of(line(ROW, problem="It is being asked.", asked=False)) == []
    assert problems_of(line(ROW, problem="It did not answer.")) == ["unknown"]


def test_the_first_try_of_all_stalled_partitions_is_the_next_one_of_the_trigger() -> None:
    tries = [replace(STALLED, next_attempt_at=NOW + timedelta(seconds=seconds)) for seconds in (60, 8)]
    assert line(ROW, *tries).next_try == NOW + timedelta(seconds=8)
    assert line(ROW, STALLED).next_try is None


def test_the_worst_partition_stands_for_its_trigger() -> None:
    rows = [ROW, replace(ROW, state=PartitionState.IN_BATCH, batch_id=7), replace(ROW, state=PartitionState.BEHIND)]
    status = line(*rows).status
    assert word_of(status, is_paused=False) == "behind"
    assert word_of(status, is_paused=True) == "paused"
    assert word_of(line(*rows, STALLED).status, is_paused=True) == "stalled"
    assert word_of(line().status, is_paused=False) == "not planned yet"


def test_partitions_are_sorted_by_what_is_worst_and_then_by_lag() -> None:
    behind, more = replace(ROW, state=PartitionState.BEHIND, lag=1), replace(ROW, state=PartitionState.BEHIND, lag=9)
    assert sorted([ROW, behind, STALLED, more], key=rank) == [STALLED, more, behind, ROW]
