"""The problems of an installation, found from the facts that a caller has."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from workorders.core.bulk.jobs import Job
from workorders.core.history.filters import Filter
from workorders.core.history.workload import MAX_COUNTED, Workload
from workorders.core.metrics import Metric, Sample, readings
from workorders.monitoring import problems
from workorders.monitoring.problems import Facts, Subject, find_problems
from workorders.outbox.admin import Hold, ShardStatus

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Row:
    """A partition."""

    topic: str = "orders"
    partition: int = 0
    status: str = "behind"
    needs_attention: bool = False
    lag: int | None = 5
    since: datetime | None = None
    next_attempt_at: datetime | None = None
    last_error: str | None = None


LOST = Row(status="not in Kafka", needs_attention=True)


@dataclass(frozen=True)
class Status:
    """A trigger."""

    name: str = "orders"
    problem: str | None = None
    partitions: Sequence[Row] = (Row(),)


def sample(name: str, value: float, **labels: str) -> Sample:
    return Sample(Metric(name, "gauge", "1", ""), tuple((labels or {"trigger": "orders"}).items()), value)


POLLED = [sample(problems.POLL_AGE, 5.0), sample(problems.STALLED_PARTITIONS, 0.0)]
SHARD = ShardStatus(0, 1, None, False, None, 0, 0, 0, None)
HOLD = Hold(7, "key", "shipments", b"k", "too\nlarge", 3, NOW - timedelta(hours=1), NOW, 12)
JOB = Job(4, "rerun", Filter(), {}, "ada", None, "x", "failed", 9, 0, {}, None, "no right", NOW, None, None, NOW)


def sentences(facts: Facts) -> list[str]:
    return [str(problem) for problem in find_problems(facts)]


def test_a_trigger_that_is_behind_and_polled_has_no_problem() -> None:
    assert sentences(Facts(triggers=[Status()], samples=POLLED)) == []
    assert sentences(Facts(samples=POLLED)) == []


def test_a_partition_that_needs_a_person_is_named_with_its_error_and_its_next_try() -> None:
    row = replace(LOST, since=NOW, next_attempt_at=NOW, last_error="first\nsecond")
    (problem,) = find_problems(Facts(triggers=[Status(partitions=(Row(partition=1), row))], samples=POLLED))
    assert str(problem) == "orders: orders 0 is not in Kafka: first second"
    assert (problem.about, problem.key, problem.since, problem.next_try) == (Subject.TRIGGER, "orders", NOW, NOW)


def test_a_stall_is_named_before_what_follows_from_it_and_only_once() -> None:
    samples = [sample(problems.STALLED_PARTITIONS, 2.0), sample(problems.NO_PROGRESS_AGE, 10_000.0)]
    stalled = Status(partitions=(replace(LOST, status="stalled", last_error="no"),))
    assert sentences(Facts(triggers=[stalled], samples=samples)) == ["orders: orders 0 is stalled: no"]


def test_what_kafka_did_not_answer_is_a_problem() -> None:
    given = Facts(triggers=[Status(problem="It did\nnot answer.")], samples=POLLED)
    assert sentences(given) == ["orders is unknown: It did not answer."]


def test_a_listener_that_does_not_look_is_named_whether_it_ever_looked_or_not() -> None:
    late = [sample(problems.POLL_AGE, problems.MAX_POLL_AGE_SECONDS + 1)]
    (sentence,) = sentences(Facts(samples=late))
    assert sentence.startswith("orders is not polling: Its listener has not looked for 301 s. Unpause its Dag, ")
    assert "Its listener has never looked" in sentences(Facts(samples=[sample(problems.STALLED_PARTITIONS, 0)]))[0]


def test_a_paused_listener_is_a_problem_only_if_messages_wait() -> None:
    late = [sample(problems.POLL_AGE, 10_000)]
    known = Facts(triggers=[Status(partitions=(Row(lag=0),))], samples=late, paused={"orders"})
    assert sentences(known) == []
    (sentence,) = sentences(replace(known, triggers=[Status()]))
    assert sentence == "orders is paused: The Dag of its listener is paused or gone, and 5 offsets wait."


def test_messages_that_do_not_become_work_orders_are_a_problem() -> None:
    stuck = [*POLLED, sample(problems.NO_PROGRESS_AGE, problems.MAX_NO_PROGRESS_SECONDS + 1)]
    (sentence,) = sentences(Facts(triggers=[Status()], samples=stuck))
    assert sentence.startswith("orders is stuck: Messages wait, and none has become a work order for more than 900 s.")


def test_a_failed_relay_and_a_hold_are_problems() -> None:
    failing = replace(SHARD, shard=1, last_error="no\nright")
    assert sentences(Facts(shards=[SHARD, failing], holds=[HOLD])) == [
        "Outbox shard 1 is failing: no right",
        "Outbox topic shipments is held: too large",
    ]


def test_a_failed_job_is_a_problem_and_an_ended_one_is_not() -> None:
    assert sentences(Facts(jobs=[JOB, replace(JOB, state="cancelled")])) == [
        "Bulk operation 4 (rerun) is failed: no right"
    ]


@pytest.mark.parametrize(("waiting", "words"), [(3, "(3)"), (MAX_COUNTED + 1, f"(more than {MAX_COUNTED:,})")])
def test_a_workflow_without_a_run_for_what_waits_is_a_problem(waiting: int, words: str) -> None:
    idle = Workload("ship", None, 0, 1, waiting - 1, NOW - timedelta(minutes=6), 0, 0)
    (problem,) = find_problems(Facts(idle=[idle]))
    assert (problem.about, problem.key, problem.since) == (Subject.WORKFLOW, "ship", idle.oldest_waiting_at)
    assert str(problem).startswith(f"Workflow ship is not running: Work orders wait {words}, and none runs.")


def test_the_oldest_message_of_all_partitions_is_that_of_the_trigger_and_is_unknown_if_none_looks() -> None:
    places = [{"trigger": "orders", "topic": "orders", "partition": str(number)} for number in range(2)]
    looked = [sample(problems.OLDEST_AGE, age, **place) for age, place in zip((30, 240), places, strict=True)]
    empty = sample(problems.OLDEST_AGE, 0, trigger="visits", topic="visits", partition="0")
    blind = sample(problems.POLL_AGE, 900, trigger="blind")
    assert problems.oldest_ages([*looked, empty, blind]) == {"orders": 240, "visits": 0}


def test_every_figure_that_health_reads_is_a_metric() -> None:
    names = {metric.name for reading in readings() for metric in reading.metrics}
    read = {value for name, value in vars(problems).items() if name.isupper() and str(value).startswith("workorders.")}
    assert read
    assert read <= names
