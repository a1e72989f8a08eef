"""Planning decides alone, so its promises can be tried on thousands of made-up clusters."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.definitions import define
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import ConfigurationError
from workorders.core.workflows import Workflow
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import KafkaUnavailableError
from workorders.kafka.partitions import OffsetRange, Partition, PartitionOffsets, Place, Position
from workorders.kafka.planning.range_planning import (
    FIRST_GUESS_MESSAGE_BYTES,
    MIN_MESSAGES,
    Backlog,
    allowed_by_rate,
    backlog,
    changed_stalls,
    cut,
    needs_high_watermark,
    plan_ranges,
    require_no_order,
    rest_seconds,
    should_plan,
)


class Limits(TypedDict):
    """Those of a round."""

    max_messages: int
    max_bytes: int


ENOUGH = Limits(max_messages=1_000_000, max_bytes=1 << 50)


@dataclass(frozen=True)
class Situation:
    """What a planner sees: the log of every partition, and the ledger's rows."""

    logs: Sequence[PartitionOffsets]
    ledger: Mapping[Partition, Position]
    limits: Limits

    def plan(self) -> list[OffsetRange]:
        return plan_ranges(self.logs, self.ledger, **self.limits)

    @property
    def backlogs(self) -> dict[Partition, int]:
        """How much waits in every partition that is free and known."""
        return {
            log.partition: log.last_stable - self.ledger[log.partition].next_offset
            for log in self.logs
            if log.partition in self.ledger
            and not self.ledger[log.partition].busy
            and log.last_stable > self.ledger[log.partition].next_offset
        }

    def size(self, partition: Partition) -> float:
        return self.ledger[partition].mean_message_bytes or FIRST_GUESS_MESSAGE_BYTES


partitions = st.builds(Partition, st.sampled_from(["orders", "patients"]), st.integers(0, 5), st.just("id"))
means = st.none() | st.integers(1, 100_000).map(float)
few_or_many = st.integers(0, 20) | st.integers(0, 1_000_000)


@st.composite
def situations(draw: st.DrawFn, limits: st.SearchStrategy[Limits] | None = None) -> Situation:
    """Ledgers and logs that agree with each other."""
    logs: list[PartitionOffsets] = []
    ledger: dict[Partition, Position] = {}
    for partition in draw(st.lists(partitions, unique=True, max_size=8)):
        log_start, before, backlog, unstable = (draw(few_or_many) for _ in range(4))
        next_offset = log_start + before
        last_stable = next_offset + backlog
        logs.append(PartitionOffsets(partition, log_start, last_stable, last_stable + unstable))
        if draw(st.integers(0, 9)):
            ledger[partition] = Position(partition, next_offset, draw(st.booleans()), draw(means))
    any_limits = st.builds(
        Limits, max_messages=st.integers(1, 30) | st.integers(1, 1_000_000), max_bytes=st.integers(1, 1 << 30)
    )
    return Situation(logs, ledger, draw(any_limits if limits is None else limits))


def length(range_: OffsetRange) -> int:
    return range_.end - range_.start


@given(situations())
def test_a_batch_never_holds_more_messages_than_its_limit(situation: Situation) -> None:
    assert sum(map(length, situation.plan())) <= situation.limits["max_messages"]


@given(situations())
def test_a_batch_never_holds_more_bytes_than_its_limit_but_for_a_single_message(situation: Situation) -> None:
    ranges = situation.plan()
    total = sum(length(range_) * situation.size(range_.partition) for range_ in ranges)
    assert total <= situation.limits["max_bytes"] * (1 + 1e-9) or sum(map(length, ranges)) == 1


def test_the_first_range_of_a_partition_is_for_large_messages_and_the_next_one_for_those_that_it_had() -> None:
    partition = Partition("orders", 0, "id")
    log = PartitionOffsets(partition, 0, 10**9, 10**9)
    for mean, messages in ((None, 65_536), (1024.0, 1_048_576)):
        ledger = {partition: Position(partition, 0, busy=False, mean_message_bytes=mean)}
        ranges = plan_ranges([log], ledger, max_messages=10**9, max_bytes=2**30)
        assert ranges == [OffsetRange(partition, 0, messages)]


@given(situations())
def test_a_range_begins_at_the_ledger_and_ends_at_or_before_the_last_stable_offset(situation: Situation) -> None:
    last_stable = {log.partition: log.last_stable for log in situation.logs}
    for range_ in situation.plan():
        assert range_.start == situation.ledger[range_.partition].next_offset
        assert range_.start < range_.end <= last_stable[range_.partition]


@given(situations())
def test_only_free_partitions_with_a_backlog_are_planned_each_once_and_sorted(situation: Situation) -> None:
    planned = [range_.partition for range_ in situation.plan()]
    assert set(planned) <= set(situation.backlogs)
    assert all(before < after for before, after in pairwise(planned))


@given(situations())
def test_something_is_planned_whenever_something_waits(situation: Situation) -> None:
    assert bool(situation.plan()) == bool(situation.backlogs)


@given(situations())
def test_no_free_partition_starves_when_the_limits_have_room_for_one_message_of_each(situation: Situation) -> None:
    waiting = situation.backlogs
    largest = max((situation.size(partition) for partition in waiting), default=1.0)
    roomy = Limits(
        max_messages=max(situation.limits["max_messages"], len(waiting)),
        max_bytes=max(situation.limits["max_bytes"], math.ceil(len(waiting) * largest)),
    )
    assert {range_.partition for range_ in replace(situation, limits=roomy).plan()} == set(waiting)


@given(situations())
def test_of_two_partitions_none_gets_less_than_the_other_but_by_its_backlog_or_one_message(
    situation: Situation,
) -> None:
    by_count = replace(situation, limits={**situation.limits, "max_bytes": ENOUGH["max_bytes"]})
    taken = dict.fromkeys(by_count.backlogs, 0) | {range_.partition: length(range_) for range_ in by_count.plan()}
    left_behind = [taken[partition] for partition, backlog in by_count.backlogs.items() if taken[partition] < backlog]
    assert max(taken.values(), default=0) <= min(left_behind, default=math.inf) + 1


@given(situations(st.just(ENOUGH)))
def test_everything_that_waits_is_taken_when_it_fits(situation: Situation) -> None:
    fits = sum(situation.backlogs.values()) <= ENOUGH["max_messages"]
    taken = {range_.partition: length(range_) for range_ in situation.plan()}
    assert (taken == situation.backlogs) is fits


@given(situations(), st.data())
def test_planning_again_and_again_takes_every_offset_exactly_once(situation: Situation, data: st.DataObject) -> None:
    """Batches stay unfinished for a while and logs grow meanwhile, as they do."""
    logs = {log.partition: replace(log, last_stable=min(log.last_stable, log.log_start + 40)) for log in situation.logs}
    starts = {
        partition: min(row.next_offset, logs[partition].last_stable) for partition, row in situation.ledger.items()
    }
    ledger = {
        partition: replace(row, next_offset=starts[partition], busy=False)
        for partition, row in situation.ledger.items()
    }
    taken: dict[Partition, list[int]] = {partition: [] for partition in ledger}
    unfinished: list[OffsetRange] = []
    growths = data.draw(st.lists(st.integers(0, 5), max_size=5))
    while True:
        ranges = plan_ranges(list(logs.values()), ledger, **situation.limits)
        for range_ in ranges:
            taken[range_.partition] += range(range_.start, range_.end)
            ledger[range_.partition] = replace(ledger[range_.partition], busy=True)
        unfinished += ranges
        if not unfinished and not growths:
            break
        finished = unfinished if not ranges else unfinished[: data.draw(st.integers(0, len(unfinished)))]
        for range_ in finished:
            ledger[range_.partition] = replace(ledger[range_.partition], next_offset=range_.end, busy=False)
        unfinished = unfinished[len(finished) :]
        growth = growths.pop() if growths else 0
        logs = {
            partition: replace(
                log,
                last_stable=log.last_stable + growth,
                high_watermark=max(log.high_watermark, log.last_stable + growth),
            )
            for partition, log in logs.items()
        }
    for partition, offsets in taken.items():
        assert offsets == list(range(starts[partition], logs[partition].last_stable))


ORDERS = Partition("orders", 0, "id")


def planned(log: PartitionOffsets, position: Position) -> list[OffsetRange]:
    return plan_ranges([log], {position.partition: position}, **ENOUGH)


@pytest.mark.parametrize(
    ("log", "end"),
    [
        pytest.param(PartitionOffsets(replace(ORDERS, topic_id="other"), 0, 0, 0), 8, id="re-created and empty"),
        pytest.param(PartitionOffsets(replace(ORDERS, topic_id="other"), 0, 9, 9), 9, id="re-created and longer"),
        pytest.param(PartitionOffsets(ORDERS, 0, 5, 5), 8, id="cut short"),
        pytest.param(PartitionOffsets(ORDERS, 9, 9, 9), 9, id="all unread deleted by retention"),
        pytest.param(PartitionOffsets(ORDERS, 9, 20, 20), 20, id="some unread deleted by retention"),
    ],
)
def test_a_contradiction_of_log_and_ledger_gets_a_range_that_will_fail_where_people_look(
    log: PartitionOffsets, end: int
) -> None:
    assert planned(log, Position(ORDERS, 7, busy=False)) == [OffsetRange(ORDERS, 7, end)]


def test_a_log_that_ends_before_what_is_stored_is_a_contradiction_although_the_ledger_went_back() -> None:
    assert planned(PartitionOffsets(ORDERS, 0, 9, 9), Position(ORDERS, 7, busy=False, stored_end=10)) == [
        OffsetRange(ORDERS, 7, 9)
    ]
    assert planned(PartitionOffsets(ORDERS, 0, 7, 7), Position(ORDERS, 7, busy=False, stored_end=10)) == [
        OffsetRange(ORDERS, 7, 8)
    ]


def test_a_contradiction_in_a_partition_that_a_batch_holds_gets_no_second_range() -> None:
    assert planned(PartitionOffsets(ORDERS, 0, 5, 5), Position(ORDERS, 7, busy=True)) == []


def test_a_range_keeps_the_topic_id_that_the_ledger_has_read() -> None:
    other = replace(ORDERS, topic_id="other")
    (range_,) = planned(PartitionOffsets(other, 0, 9, 9), Position(ORDERS, 7, busy=False))
    assert range_.partition.topic_id == "id"


def test_messages_of_an_open_transaction_are_waited_for() -> None:
    assert planned(PartitionOffsets(ORDERS, 0, 7, 12), Position(ORDERS, 7, busy=False)) == []
    assert planned(PartitionOffsets(ORDERS, 0, 9, 12), Position(ORDERS, 7, busy=False)) == [OffsetRange(ORDERS, 7, 9)]


def test_a_message_larger_than_a_batch_makes_a_batch_of_its_own() -> None:
    position = Position(ORDERS, 7, busy=False, mean_message_bytes=5000.0)
    log = PartitionOffsets(ORDERS, 0, 90, 90)
    (range_,) = plan_ranges([log], {ORDERS: position}, max_messages=100, max_bytes=1024)
    assert length(range_) == 1


def test_nothing_is_planned_when_the_rate_leaves_nothing() -> None:
    position = Position(ORDERS, 0, busy=False)
    log = PartitionOffsets(ORDERS, 0, 90, 90)
    allowed = allowed_by_rate(0.9, 1.0, burst=100)
    assert plan_ranges([log], {ORDERS: position}, max_messages=allowed, max_bytes=1 << 20) == []


@pytest.mark.parametrize(
    ("rate", "seconds", "allowed"),
    [
        pytest.param(None, 0.0, 100, id="no limit"),
        pytest.param(5.0, None, 5, id="first batch: one second's worth"),
        pytest.param(0.1, None, 1, id="first batch of a slow rate: one message"),
        pytest.param(500.0, None, 100, id="first batch: at most a batch"),
        pytest.param(5.0, 2.0, 10, id="what was saved up"),
        pytest.param(5.0, 2.5, 12, id="whole messages"),
        pytest.param(5.0, 0.0, 0, id="nothing at once"),
        pytest.param(5.0, 36_000.0, 100, id="an idle night saves up one batch"),
        pytest.param(5.0, -3.0, 5, id="a clock that went back: as for a first batch"),
    ],
)
def test_a_rate_limit_allows_what_was_saved_up_since_the_last_batch(
    rate: float | None, seconds: float | None, allowed: int
) -> None:
    assert allowed_by_rate(rate, seconds, burst=100) == allowed


@given(
    rate=st.floats(0.01, 1000),
    burst=st.integers(1, 10_000),
    waits=st.lists(st.floats(0, 100), max_size=50),
)
def test_batches_one_after_the_other_keep_to_the_rate(rate: float, burst: int, waits: list[float]) -> None:
    total = sum(allowed_by_rate(rate, wait, burst) for wait in waits)
    assert total <= rate * sum(waits) + 1e-6


@pytest.mark.parametrize(
    ("logs", "planned"),
    [
        ([("new", 0)], [("old", 0), ("old", 1)]),
        ([("new", 0), ("new", 1)], [("old", 0), ("old", 1)]),
        ([("old", 0)], []),
        ([], []),
    ],
    ids=["re-created with fewer", "re-created", "a partition is not described", "the topic is not there"],
)
def test_partitions_that_a_new_topic_lacks_are_planned_so_that_people_see_it(
    logs: list[tuple[str, int]], planned: list[tuple[str, int]]
) -> None:
    known = [Partition("orders", number, "old") for number in (0, 1)]
    ledger = {partition: Position(partition, 7, busy=False) for partition in known}
    found = [PartitionOffsets(Partition("orders", number, topic_id), 0, 7, 7) for topic_id, number in logs]
    ranges = plan_ranges(found, ledger, **ENOUGH)
    assert [(range_.partition.topic_id, range_.partition.partition) for range_ in ranges] == planned
    assert {(range_.start, range_.end) for range_ in ranges} <= {(7, 8)}


def test_a_partition_that_an_operator_has_accepted_as_gone_is_left_alone() -> None:
    gone = Partition("orders", 1, "new")
    there = Partition("orders", 0, "new")
    ledger = {partition: Position(partition, 0, busy=False) for partition in (there, gone)}
    assert plan_ranges([PartitionOffsets(there, 0, 0, 0)], ledger, **ENOUGH) == []


@given(start=st.integers(0, 2**62), size=st.integers(1, 10_000_000), count=st.integers(1, 32))
def test_virtual_partitions_are_the_whole_range_without_gaps_and_none_is_too_small(
    start: int, size: int, count: int
) -> None:
    whole = OffsetRange(ORDERS, start, start + size)
    pieces = cut(whole, count)
    if not pieces:
        assert count == 1 or size < 2 * MIN_MESSAGES
        return
    assert 2 <= len(pieces) <= count
    assert (pieces[0].start, pieces[-1].end) == (whole.start, whole.end)
    assert [range_.end for range_ in pieces[:-1]] == [range_.start for range_ in pieces[1:]]
    sizes = {range_.end - range_.start for range_ in pieces}
    assert min(sizes) >= MIN_MESSAGES
    assert max(sizes) - min(sizes) <= 1
    assert {range_.planned for range_ in pieces} == {whole}


def test_a_range_has_as_many_virtual_partitions_as_the_trigger_allows() -> None:
    pieces = cut(OffsetRange(ORDERS, 5, 10_005), 4)
    assert [(range_.start, range_.end) for range_ in pieces] == [(5, 2505), (2505, 5005), (5005, 7505), (7505, 10_005)]


@pytest.mark.parametrize(
    ("field", "reason"),
    [({"ordering_key": "key"}, "has the ordering_key key"), ({"concurrency": 1}, "has concurrency: 1")],
)
def test_a_workflow_that_needs_order_refuses_them(field: dict[str, object], reason: str) -> None:
    workflow = WorkflowDefinition.model_validate({"name": "admit", "callable": "shop:ship", **field})
    with pytest.raises(ConfigurationError) as refused:
        require_no_order(define("orders", virtual_partitions=4), Workflow(1, "admit", workflow))
    assert str(refused.value) == (
        f"orders: virtual_partitions: expected 1, because workflow admit {reason} and virtual partitions are written "
        f"in any order, got 4. Nothing was planned or read; remove virtual_partitions from the trigger's file, or the "
        f"order from the workflow."
    )


@pytest.mark.parametrize("field", [{}, {"concurrency": 2}])
def test_a_workflow_without_order_takes_them(field: dict[str, object]) -> None:
    workflow = WorkflowDefinition.model_validate({"name": "admit", "callable": "shop:ship", **field})
    require_no_order(define("orders", virtual_partitions=4), Workflow(1, "admit", workflow))


PATIENTS = Partition("patients", 3, "id")
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
