"""One alert per stall and one when it is over, however many attempts ask at once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from local_stack.stack import LocalStack
from support.ingesting import finish, partition_of, plan
from support.stalling import let_it_last, stall
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.kafka.ledger import positions, stalls
from workorders.kafka.ledger.stalls import Alert
from workorders.kafka.partitions import OffsetRange

pytestmark = pytest.mark.integration

HOUR = 3600.0


@pytest.fixture
def ranges(name: str) -> list[OffsetRange]:
    return [OffsetRange(partition_of(name, number), 100, 110) for number in (0, 1)]


@pytest.fixture
def batch_id(connection: Connection, trigger: Trigger, ranges: list[OffsetRange]) -> int:
    return plan(connection, trigger, ranges[0])


def claim(stack: LocalStack, trigger: Trigger, after_seconds: float = HOUR) -> list[Alert]:
    """Ask on a separate connection, as every attempt does."""
    with connect(stack.database_url, autocommit=True) as own:
        return stalls.claim_alerts(own, trigger, after_seconds=after_seconds)


def test_a_stall_is_alerted_once_after_the_threshold_however_many_tries_follow(
    stack: LocalStack, connection: Connection, trigger: Trigger, batch_id: int, name: str
) -> None:
    stall(connection, batch_id, "The disk is full.")
    let_it_last(connection, trigger, HOUR - 60)
    assert claim(stack, trigger) == []
    let_it_last(connection, trigger, 60)
    (alert,) = claim(stack, trigger)
    for _ in range(3):
        assert claim(stack, trigger) == []
        stall(connection, batch_id, "The disk is still full.")
    assert claim(stack, trigger) == []
    assert (alert.trigger, alert.topic, alert.partition, alert.cleared) == (trigger.name, name, 0, False)
    assert (alert.next_offset, alert.end_offset, alert.attempts) == (100, 110, 1)
    assert alert.sentence == (
        f"Trigger {trigger.name}: {name} 0 [100, 110) has been stalled since {alert.since:%Y-%m-%dT%H:%M:%SZ}, and "
        f"attempt 1 failed as well. The disk is full. Nothing is skipped, and the retries continue indefinitely."
    )


def test_the_end_of_an_alerted_stall_is_alerted_once(
    stack: LocalStack, connection: Connection, trigger: Trigger, batch_id: int, ranges: list[OffsetRange]
) -> None:
    stall(connection, batch_id)
    (alert,) = claim(stack, trigger, 0)
    finish(connection, batch_id, ranges[0])
    connection.commit()
    (over,) = claim(stack, trigger, 0)
    assert claim(stack, trigger, 0) == []
    assert (over.cleared, over.since, over.next_offset, over.end_offset) == (True, alert.since, 110, None)
    assert f"the stall of {ranges[0].partition.topic} 0 that began at" in over.sentence
    assert over.sentence.endswith("has ended; the ledger is at offset 110.")


def test_a_stall_without_an_alert_ends_without_one(
    stack: LocalStack, connection: Connection, trigger: Trigger, batch_id: int, ranges: list[OffsetRange]
) -> None:
    stall(connection, batch_id)
    assert claim(stack, trigger) == []
    finish(connection, batch_id, ranges[0])
    connection.commit()
    assert claim(stack, trigger, 0) == []


def test_a_second_stall_is_alerted_again_also_without_a_check_in_between(
    stack: LocalStack, connection: Connection, trigger: Trigger, batch_id: int, ranges: list[OffsetRange]
) -> None:
    stall(connection, batch_id, "first")
    (first,) = claim(stack, trigger, 0)
    finish(connection, batch_id, ranges[0])
    connection.commit()
    stall(connection, plan(connection, trigger, OffsetRange(ranges[0].partition, 110, 120)), "second")
    over, second = claim(stack, trigger, 0)
    assert (over.cleared, over.since) == (True, first.since)
    assert (second.cleared, second.next_offset) == (False, 110)
    assert "second" in second.sentence
    assert claim(stack, trigger, 0) == []


def test_of_many_who_ask_at_once_one_gets_the_alert(
    stack: LocalStack, connection: Connection, trigger: Trigger, ranges: list[OffsetRange]
) -> None:
    batch_id = plan(connection, trigger, *ranges)
    stall(connection, batch_id)
    askers = 8
    barrier = Barrier(askers)

    def ask(_: int) -> list[Alert]:
        with connect(stack.database_url, autocommit=True) as own:
            barrier.wait(30)
            return stalls.claim_alerts(own, trigger, after_seconds=0)

    with ThreadPoolExecutor(askers) as pool:
        got = [alert.partition for found in pool.map(ask, range(askers)) for alert in found]
        assert sorted(got) == [0, 1]
    for range_ in ranges:
        finish(connection, batch_id, range_)
        connection.commit()
    with ThreadPoolExecutor(askers) as pool:
        over = [(alert.partition, alert.cleared) for found in pool.map(ask, range(askers)) for alert in found]
    assert sorted(over) == [(0, True), (1, True)]


def test_a_partition_that_is_being_ingested_is_not_waited_for_and_left_to_the_next_who_asks(
    stack: LocalStack, connection: Connection, trigger: Trigger, ranges: list[OffsetRange]
) -> None:
    stall(connection, plan(connection, trigger, *ranges))
    positions.lock(connection, trigger, ranges[0].partition)
    assert [alert.partition for alert in claim(stack, trigger, 0)] == [1]
    connection.rollback()
    assert [alert.partition for alert in claim(stack, trigger, 0)] == [0]


def test_triggers_are_alerted_apart(
    stack: LocalStack, connection: Connection, trigger: Trigger, batch_id: int, name: str
) -> None:
    stall(connection, batch_id)
    other = Trigger(trigger.id + 1_000_000, f"{name}-other", "kafka", trigger.workflow_id, trigger.workflow)
    assert claim(stack, other, 0) == []
    assert len(claim(stack, trigger, 0)) == 1
