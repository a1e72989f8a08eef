"""What an operator may decide, and what follows from it."""

from dataclasses import replace

import pytest

from workorders.kafka.exceptions import DecisionRefusedError
from workorders.kafka.partitions import OffsetRange, Partition, PartitionOffsets
from workorders.kafka.recovery.decisions import Decision, Kind, Standing, called_for, command, decide

ORDERS = Partition("orders", 2, "old")
MADE_AGAIN = replace(ORDERS, topic_id="new")
HELD = OffsetRange(ORDERS, 1200, 1900)


def standing(log: PartitionOffsets | None, **changes: object) -> Standing:
    stands = Standing(
        trigger="shop",
        partition=ORDERS,
        next_offset=1200,
        start_offset=0,
        generation=0,
        topic_id_now=None if log is None else log.partition.topic_id,
        log=log,
        held=HELD,
        batch_id=17,
    )
    return replace(stands, **changes)  # type: ignore[arg-type]


def log(start: int, end: int, partition: Partition = ORDERS) -> PartitionOffsets:
    return PartitionOffsets(partition, start, end, end)


HEALTHY = standing(log(0, 5000))
EXPIRED = standing(log(1800, 5000))
CUT_BEHIND = standing(log(0, 1000))
CUT_INSIDE = standing(log(0, 1500))
RECREATED = standing(log(3, 40, MADE_AGAIN))
GONE = standing(None)
FEWER = standing(None, topic_id_now="new")


def refusal(kind: Kind, stands: Standing, offset: int | None = None) -> str:
    with pytest.raises(DecisionRefusedError, match="nothing was changed") as raised:
        decide(kind, stands, offset)
    return str(raised.value)


@pytest.mark.parametrize(
    ("stands", "kind"),
    [
        (HEALTHY, None),
        (EXPIRED, Kind.RESUME),
        (CUT_BEHIND, Kind.RESUME),
        (CUT_INSIDE, Kind.RESUME),
        (RECREATED, Kind.ACCEPT_TOPIC),
        (FEWER, Kind.ACCEPT_TOPIC),
        (GONE, Kind.RESUME),
        (replace(GONE, held=None, batch_id=None), None),
        (replace(CUT_INSIDE, held=None, batch_id=None), None),
    ],
)
def test_each_loss_calls_for_its_decision(stands: Standing, kind: Kind | None) -> None:
    assert called_for(stands) == kind


def test_resuming_goes_on_at_the_first_offset_that_kafka_has_and_names_what_is_lost() -> None:
    decision = decide(Kind.RESUME, EXPIRED)
    assert (decision.to, decision.to_offset, decision.lost) == (ORDERS, 1800, (1200, 1800))
    assert not decision.another_log
    assert str(decision) == (
        "shop: orders 2: resume: the ledger goes from 1200 to 1800; offsets [1200, 1800) (600) get no work order: they "
        "were deleted by retention before they were read; range [1200, 1900) of batch 17 is superseded."
    )


def test_what_a_log_still_has_before_its_cut_is_read() -> None:
    decision = decide(Kind.RESUME, CUT_INSIDE)
    assert (decision.to_offset, decision.lost, decision.another_log) == (1200, (1500, 1900), False)


def test_behind_a_cut_the_offsets_mean_other_messages() -> None:
    decision = decide(Kind.RESUME, CUT_BEHIND)
    assert (decision.to, decision.to_offset, decision.lost, decision.another_log) == (ORDERS, 1000, None, True)
    assert decision.goes_back
    assert "every message from 1000 on is a new one" in str(decision)


def test_an_operator_may_know_better_where_a_log_was_cut() -> None:
    assert decide(Kind.RESUME, CUT_BEHIND, 900).to_offset == 900
    assert "offset 1001 is not in the log, which is [0, 1000) now" in refusal(Kind.RESUME, CUT_BEHIND, 1001)


def test_resuming_gives_up_what_was_planned_of_a_topic_that_is_gone() -> None:
    decision = decide(Kind.RESUME, GONE)
    assert (decision.to_offset, decision.lost) == (1900, (1200, 1900))


def test_a_new_topic_is_read_from_its_first_offset_or_the_one_given() -> None:
    first = decide(Kind.ACCEPT_TOPIC, RECREATED)
    assert (first.to, first.to_offset, first.goes_back) == (MADE_AGAIN, 3, False)
    assert "what the old topic held from offset 1200 on and was not read is lost" in str(first)
    assert "skipped" not in str(first)
    given = decide(Kind.ACCEPT_TOPIC, RECREATED, 10)
    assert given.to_offset == 10
    assert "offsets [3, 10) of the new topic (7) are skipped" in str(given)


def test_a_partition_that_the_new_topic_lacks_waits_at_its_first_offset() -> None:
    decision = decide(Kind.ACCEPT_TOPIC, FEWER)
    assert (decision.to, decision.to_offset) == (MADE_AGAIN, 0)
    assert "the new topic does not have this partition" in str(decision)


@pytest.mark.parametrize(("offset", "lost"), [(1300, (1200, 1300)), (1200, None), (5, None)])
def test_starting_over_goes_forward_or_back(offset: int, lost: tuple[int, int] | None) -> None:
    decision = decide(Kind.START_OVER, HEALTHY, offset)
    assert (decision.to, decision.to_offset, decision.lost) == (ORDERS, offset, lost)
    assert decision.goes_back == (offset < 1200)


def test_starting_over_says_what_it_skips_or_reads_again() -> None:
    assert "offsets [1200, 1300) (100) get no work order: they are skipped" in str(
        decide(Kind.START_OVER, HEALTHY, 1300)
    )
    assert "offsets [200, 1200) (1,000) are read again: messages that have a work order keep it" in str(
        decide(Kind.START_OVER, HEALTHY, 200)
    )


@pytest.mark.parametrize("offset", [-1, 5001])
def test_nobody_starts_over_outside_of_the_log(offset: int) -> None:
    assert "is not in the log, which is [0, 5000) now" in refusal(Kind.START_OVER, HEALTHY, offset)


def test_nobody_goes_back_across_a_cut_where_work_orders_would_be_doubled() -> None:
    after_a_cut = replace(HEALTHY, generation=5, start_offset=1000)
    assert decide(Kind.START_OVER, after_a_cut, 1000).to_offset == 1000
    assert "they would be doubled" in refusal(Kind.START_OVER, after_a_cut, 999)


@pytest.mark.parametrize(
    ("kind", "stands", "offset", "reason"),
    [
        (Kind.RESUME, HEALTHY, None, "there is no gap to resume after"),
        (Kind.RESUME, RECREATED, None, "its topic was made again"),
        (Kind.RESUME, FEWER, None, "its topic was made again"),
        (Kind.RESUME, EXPIRED, 1900, "no offset is taken here"),
        (Kind.RESUME, replace(GONE, held=None, batch_id=None), None, "nothing of it is planned"),
        (Kind.RESUME, replace(GONE, topic_id_now="old"), None, "says nothing of this partition now"),
        (Kind.ACCEPT_TOPIC, HEALTHY, None, "there is no other one to accept"),
        (Kind.ACCEPT_TOPIC, GONE, None, "there is no topic of that name"),
        (Kind.ACCEPT_TOPIC, FEWER, 4, "no offset is taken here"),
        (Kind.ACCEPT_TOPIC, RECREATED, 41, "is not in the log, which is [3, 40) now"),
        (Kind.START_OVER, HEALTHY, None, "an offset is needed"),
        (Kind.START_OVER, RECREATED, 5, "its topic was made again"),
        (Kind.START_OVER, CUT_BEHIND, 5, "its log was cut short behind the ledger"),
        (Kind.START_OVER, GONE, 5, "Kafka does not have it now"),
    ],
)
def test_a_decision_that_does_not_fit_is_refused(kind: Kind, stands: Standing, offset: int | None, reason: str) -> None:
    assert reason in refusal(kind, stands, offset)


def test_a_refusal_names_the_command_that_fits() -> None:
    assert refusal(Kind.RESUME, RECREATED).endswith(
        "see `workorders resolve accept-topic shop orders --partition 2`. [WO-DECISION-REFUSED]"
    )


def test_a_sentence_without_a_batch_names_none() -> None:
    decision: Decision = decide(Kind.START_OVER, replace(HEALTHY, held=None, batch_id=None), 5)
    assert "superseded" not in str(decision)


def test_the_line_to_type_is_quoted_for_a_shell() -> None:
    assert command(Kind.RESUME, "shop", replace(ORDERS, topic="a.b-c_1")) == (
        "workorders resolve resume shop a.b-c_1 --partition 2"
    )
