from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.definitions import define
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import KafkaUnavailableError
from workorders.kafka.partitions import Partition, PartitionOffsets, Place, Position
from workorders.kafka.planning.range_planning import plan_ranges
from workorders.kafka.planning.wakeup import (
    Backlog,
    backlog,
    changed_stalls,
    needs_high_watermark,
    rest_seconds,
    should_plan,
)

ORDERS, PATIENTS = Partition("orders", 0, "id"), Partition("patients", 3, "id")
NOTHING = Backlog(0, ())
AT_ONCE = define("orders", max_messages=100)
PATIENT = define("orders", min_messages=10, max_wait=30, max_messages=100)


def awake(
    waiting: Backlog, definition: KafkaTriggerDefinition, waited: float = 0.0, since_last: float | None = None
) -> bool:
    return should_plan(waiting, definition, waited_seconds=waited, seconds_since_last_batch=since_last)


def test_a_partition_at_its_end_waits_for_nothing() -> None:
    waiting = backlog({ORDERS: 7}, {ORDERS: Position(ORDERS, 7, busy=False)})
    assert waiting == NOTHING
    assert waiting.empty
    assert not awake(waiting, AT_ONCE, waited=1e9)


def test_offsets_ahead_of_the_ledger_are_added_up_over_the_free_partitions() -> None:
    ledger = {ORDERS: Position(ORDERS, 7, busy=False), PATIENTS: Position(PATIENTS, 10, busy=False)}
    waiting = backlog({ORDERS: 9, PATIENTS: 15}, ledger)
    assert waiting == Backlog(7, ())
    assert not waiting.empty
    assert awake(waiting, AT_ONCE)


@pytest.mark.parametrize("end", [0, 7, 900])
def test_a_busy_partition_wakes_no_listener(end: int) -> None:
    waiting = backlog({ORDERS: end}, {ORDERS: Position(ORDERS, 7, busy=True)})
    assert waiting.empty
    assert not awake(waiting, AT_ONCE)


def test_a_busy_partition_of_a_recreated_topic_wakes_no_listener() -> None:
    ledger = {ORDERS: Position(replace(ORDERS, topic_id="old"), 7, busy=True)}
    assert backlog({ORDERS: 1}, ledger).empty


def test_a_partition_that_the_ledger_does_not_have_is_left_to_the_next_poll() -> None:
    waiting = backlog({ORDERS: 7, PATIENTS: 5}, {ORDERS: Position(ORDERS, 7, busy=False)})
    assert waiting == NOTHING


@pytest.mark.parametrize(
    ("end", "read", "stored_end"),
    [
        pytest.param(3, ORDERS, 7, id="cut short"),
        pytest.param(9, ORDERS, 10, id="cut short before the end of what is stored"),
        pytest.param(9, replace(ORDERS, topic_id="old"), 7, id="re-created and longer"),
        pytest.param(0, replace(ORDERS, topic_id="old"), 7, id="re-created and empty"),
    ],
)
def test_a_contradiction_wakes_at_once(end: int, read: Partition, stored_end: int) -> None:
    waiting = backlog({ORDERS: end}, {read: Position(read, 7, busy=False, stored_end=stored_end)})
    assert waiting == Backlog(0, (ORDERS,))
    assert not waiting.empty
    assert awake(waiting, PATIENT)


@pytest.mark.parametrize(
    ("offsets", "waited", "wanted"), [(9, 0.0, False), (9, 29.9, False), (9, 30.0, True), (10, 0.0, True)]
)
def test_a_batch_is_wanted_with_enough_messages_or_after_the_longest_wait(
    offsets: int, waited: float, wanted: bool
) -> None:
    assert awake(Backlog(offsets, ()), PATIENT, waited) is wanted


@pytest.mark.parametrize(("since_last", "wanted"), [(None, True), (0.0, False), (1.9, False), (2.0, True), (1e9, True)])
def test_a_rate_limit_is_slept_out(since_last: float | None, wanted: bool) -> None:
    slow = define("orders", max_messages=100, rate_limit_per_second=0.5)
    assert awake(Backlog(1000, ()), slow, since_last=since_last) is wanted


@pytest.mark.parametrize(
    ("waiting", "wanted"),
    [
        pytest.param(Backlog(1000, ()), False, id="messages"),
        pytest.param(Backlog(1000, (ORDERS,)), True, id="a mismatch"),
    ],
)
def test_messages_of_free_partitions_are_left_to_a_batch_that_grows(waiting: Backlog, *, wanted: bool) -> None:
    def planned(*, is_open: bool) -> bool:
        return should_plan(waiting, AT_ONCE, waited_seconds=1e9, seconds_since_last_batch=1e9, is_open=is_open)

    assert planned(is_open=True) is wanted
    assert planned(is_open=False)


@given(st.dictionaries(st.builds(Partition, st.just("t"), st.integers(0, 9), st.just("id")), st.integers(0, 99)))
def test_every_free_offset_is_counted_once(ends: dict[Partition, int]) -> None:
    ledger = {partition: Position(partition, 0, busy=partition.partition % 2 == 0) for partition in ends}
    assert backlog(ends, ledger).offsets == sum(end for partition, end in ends.items() if partition.partition % 2)


def test_a_ledger_inside_an_open_transaction_is_waited_for_as_planning_does() -> None:
    """The policy `group` may begin there, if the group was a reader of uncommitted messages."""
    position = Position(ORDERS, 5, busy=False, stored_end=9)
    log = PartitionOffsets(ORDERS, log_start=0, last_stable=7, high_watermark=12)
    planned = plan_ranges([log], {ORDERS: position}, max_messages=100, max_bytes=1 << 20)
    ends, ledger = {ORDERS: log.last_stable}, {ORDERS: position}
    assert needs_high_watermark(ends, ledger) == [ORDERS]
    waiting = backlog(ends, ledger, {ORDERS: log.high_watermark})
    assert awake(waiting, AT_ONCE) is bool(planned)


@pytest.mark.parametrize("busy", [False, True])
def test_a_partition_that_a_recreated_topic_lacks_wakes_unless_a_batch_holds_it(*, busy: bool) -> None:
    old = Partition("orders", 1, "old")
    ledger = {ORDERS: Position(ORDERS, 7, busy=False), old: Position(old, 3, busy=busy)}
    assert backlog({ORDERS: 7}, ledger).mismatches == (() if busy else (old,))


@pytest.mark.parametrize(
    ("seconds", "growing", "rest"),
    [(0.0, 1, 0.0), (0.4, 1, 0.2), (0.4, 2, 0.4), (0.4, 20, 4.0), (2.0, 20, 6.0), (2.0, 1, 1.0), (60.0, 1, 0.0)],
)
def test_a_batch_rests_after_a_round_and_longer_the_more_batches_grow(
    seconds: float, growing: int, rest: float
) -> None:
    assert rest_seconds(seconds, growing) == pytest.approx(rest)


ERROR = KafkaUnavailableError("no leader")


@pytest.mark.parametrize(
    ("errors", "before", "position", "changed"),
    [
        pytest.param({("orders", 0): ERROR}, {}, {}, False, id="a leader may be elected"),
        pytest.param({("orders", 0): ERROR}, {("orders", 0): ERROR}, {}, True, id="a stall begins"),
        pytest.param({("orders", None): ERROR}, {("orders", 0): ERROR}, {}, True, id="with its topic"),
        pytest.param({("orders", 1): ERROR}, {("orders", 1): ERROR}, {}, False, id="another partition"),
        pytest.param({("orders", 0): ERROR}, {}, {"stalled_seconds": 5.0}, False, id="it is recorded"),
        pytest.param({("orders", 0): ERROR}, {}, {"stalled_seconds": 60.0}, True, id="an alert is due"),
        pytest.param({("orders", 0): ERROR}, {}, {"stalled_seconds": 60.0, "alerted": True}, False, id="alerted"),
        pytest.param({}, {}, {"stalled_seconds": 5.0}, True, id="it ends"),
        pytest.param({}, {}, {}, False, id="nothing"),
    ],
)
def test_the_planner_is_asked_to_record_that_a_stall_began_or_ended(
    errors: Mapping[Place, Exception], before: Mapping[Place, Exception], position: Mapping[str, Any], *, changed: bool
) -> None:
    for busy in (False, True):
        ledger = {ORDERS: Position(ORDERS, 7, busy=busy, **position)}
        found = changed_stalls(errors, before, ledger, alert_after_seconds=60.0)
        assert bool(found) == (changed and not busy)
        assert awake(replace(NOTHING, stalls=found), PATIENT) == (changed and not busy)
