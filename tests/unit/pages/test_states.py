"""What needs a person comes first, with the page that helps."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from workorders.core.history.workload import Workload
from workorders.kafka.partitions import PartitionState
from workorders.kafka.status import PartitionRow, TriggerStatus
from workorders.monitoring.problems import Facts, Problem, Subject, find_problems
from workorders.pages import states
from workorders.pages.rendering import tone
from workorders.pages.states import lag_of, rank, stopped_listeners, word_of_trigger, word_of_workflow

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
RUNS, PAUSED, GONE = {"orders_listener": False}, {"orders_listener": True}, dict[str, bool]()
PROBLEM = Problem(about=Subject.TRIGGER, key="orders", subject="orders: orders 1", state="stalled", sentence="no")


def status_of(*rows: PartitionRow, problem: str | None = None) -> TriggerStatus:
    return TriggerStatus("orders", "ship", "g", "kafka_default", ("orders",), problem, rows)


def problems_of(status: TriggerStatus, paused: Mapping[str, bool]) -> list[str]:
    """Return what is wrong, if these Dags are known to Airflow, and some of them are paused."""
    facts = Facts(triggers=[status], paused=stopped_listeners([status.name], paused))
    return [problem.state for problem in find_problems(facts)]


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
        (replace(PROBLEM, about=Subject.JOB, key="9", state="failed"), ("bulk", "9"), "See the operation"),
    ],
)
def test_each_problem_leads_to_the_page_that_helps(problem: Problem, page: tuple[str, ...], button: str) -> None:
    assert (states.page_of(problem), states.button_of(problem)) == (page, button)


def test_what_is_worst_comes_first_and_then_what_has_lasted_longest() -> None:
    stuck = replace(PROBLEM, state="stuck", subject="stuck")
    new, old = (replace(PROBLEM, since=NOW - timedelta(hours=hours), subject=f"{hours} h") for hours in (1, 9))
    shard = replace(PROBLEM, about=Subject.SHARD, state="failing", subject="shard")
    found = sorted([stuck, new, shard, old], key=states.urgency)
    assert [problem.subject for problem in found] == ["shard", "9 h", "1 h", "stuck"]


def test_the_overview_knows_partitions_and_listeners_that_are_paused_or_gone() -> None:
    assert problems_of(status_of(ROW, STALLED), RUNS) == ["stalled"]
    assert problems_of(status_of(ROW), PAUSED) == []
    behind = status_of(replace(ROW, lag=4, state=PartitionState.BEHIND))
    assert problems_of(behind, RUNS) == []
    assert problems_of(behind, PAUSED) == problems_of(behind, GONE) == ["paused"]


def test_that_kafka_does_not_answer_is_a_problem() -> None:
    assert problems_of(status_of(ROW, problem="It did not answer."), RUNS) == ["unknown"]


def test_the_worst_partition_stands_for_its_trigger() -> None:
    rows = [ROW, replace(ROW, state=PartitionState.IN_BATCH, batch_id=7), replace(ROW, state=PartitionState.BEHIND)]
    status = status_of(*rows)
    assert word_of_trigger(status, is_paused=False) == "behind"
    assert word_of_trigger(status, is_paused=True) == "paused"
    assert word_of_trigger(status_of(*rows, STALLED), is_paused=True) == "stalled"
    assert word_of_trigger(status_of(), is_paused=False) == "not planned yet"


def test_the_lag_of_a_trigger_is_the_sum_of_those_that_are_known() -> None:
    assert lag_of(status_of(replace(ROW, lag=3), replace(ROW, lag=None), replace(ROW, lag=4))) == 7
    assert lag_of(status_of(replace(ROW, lag=None))) is None


def test_partitions_are_sorted_by_what_is_worst_and_then_by_lag() -> None:
    behind, more = replace(ROW, state=PartitionState.BEHIND, lag=1), replace(ROW, state=PartitionState.BEHIND, lag=9)
    assert sorted([ROW, behind, STALLED, more], key=rank) == [STALLED, more, behind, ROW]


def work(*, running: int = 0, waiting: int = 0) -> Workload:
    return Workload(
        "ship",
        concurrency=None,
        running=running,
        pending=0,
        requeued=waiting,
        oldest_waiting_at=None,
        parked=0,
        failed=0,
    )


@pytest.mark.parametrize(
    ("found", "is_stuck", "is_paused", "word", "color"),
    [
        (work(), False, False, "idle", "idle"),
        (work(waiting=3), False, False, "waiting", "idle"),
        (work(running=1, waiting=3), False, False, "running", "busy"),
        (work(running=1, waiting=3), False, True, "paused", "warn"),
        (work(), False, True, "paused", "warn"),
        (work(waiting=3), True, False, "not running", "bad"),
        (work(waiting=3), True, True, "not running", "bad"),
    ],
)
def test_the_word_is_that_of_the_worst_that_is_true_of_a_workflow(
    found: Workload, *, is_stuck: bool, is_paused: bool, word: str, color: str
) -> None:
    assert word_of_workflow(found, is_stuck=is_stuck, is_paused=is_paused) == word
    assert tone(word) == color
