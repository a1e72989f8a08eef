"""What a check of the status finds."""

from dataclasses import replace

import pytest

from workorders.cli.checks import problems
from workorders.core.metrics import Metric, Sample
from workorders.kafka.status.partition_status import PartitionRow, TriggerStatus
from workorders.monitoring import health

ROW = PartitionRow(
    topic="orders",
    partition=0,
    topic_id="id",
    group_offset=5,
    last_stable=10,
    high_watermark=10,
    group_lag=5,
    lag=5,
    status="behind",
)
STATUS = TriggerStatus("orders", "ship", "g", "kafka_default", None, (ROW,))


def sample(name: str, value: float, trigger: str = "orders") -> Sample:
    return Sample(Metric(name, "gauge", "1", ""), (("trigger", trigger),), value)


POLLED = [sample(health.POLL_AGE, 5.0), sample(health.STALLED, 0.0), sample(health.LAG, 5.0)]


def test_a_trigger_that_is_behind_and_polled_has_no_problem() -> None:
    assert problems([STATUS], POLLED) == []


@pytest.mark.parametrize("status", ["stalled", "not in Kafka", "topic re-created", "log truncated"])
def test_a_partition_that_needs_a_person_is_named(status: str) -> None:
    (problem,) = problems([replace(STATUS, partitions=(replace(ROW, status=status),))], POLLED)
    assert problem == f"Trigger orders: orders 0 is {status}."


@pytest.mark.parametrize("status", ["up to date", "in batch 7", "not planned yet", "waiting for an open transaction"])
def test_every_other_status_is_fine(status: str) -> None:
    assert problems([replace(STATUS, partitions=(replace(ROW, status=status),))], POLLED) == []


def test_a_stall_is_named_once() -> None:
    stalled = replace(STATUS, partitions=(replace(ROW, status="stalled"),))
    assert len(problems([stalled], [sample(health.STALLED, 1.0), sample(health.POLL_AGE, 5.0)])) == 1


def test_what_kafka_did_not_answer_is_a_problem() -> None:
    assert problems([replace(STATUS, problem="It did not answer.")], POLLED) == ["Trigger orders: It did not answer."]


def test_limits_of_lag_and_age_count_only_above_them() -> None:
    old = [*POLLED, sample(health.OLDEST_AGE, 600.0)]
    assert problems([STATUS], old, max_lag=5, max_age_seconds=600) == []
    assert problems([STATUS], old, max_lag=4, max_age_seconds=599) == [
        "Trigger orders: orders 0 has a lag of 5, more than 4.",
        "Trigger orders: a message has waited for up to 600 s, more than 599 s.",
    ]


def test_other_triggers_are_not_checked() -> None:
    assert problems([STATUS], [*POLLED, sample(health.POLL_AGE, 10_000.0, "other")]) == []
