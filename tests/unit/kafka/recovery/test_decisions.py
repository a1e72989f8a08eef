"""What an operator may decide, and what follows from it."""

from dataclasses import replace

import pytest

from workorders.kafka.exceptions import DecisionRefusedError
from workorders.kafka.partitions import OffsetRange, Partition, PartitionOffsets
from workorders.kafka.recovery.decisions import (
    Decision,
    DecisionKind,
    PartitionFacts,
    cli_command,
    decide,
    required_decision,
)

ORDERS = Partition("orders", 2, "old")
NEW_LOG = replace(ORDERS, topic_id="new")
HELD = OffsetRange(ORDERS, 1200, 1900)


def state(log: PartitionOffsets | None, **changes: object) -> PartitionFacts:
    before = PartitionFacts(
        trigger="shop",
        partition=ORDERS,
        next_offset=1200,
        stored_end=1200,
        start_offset=0,
        generation=0,
        topic_id_now=None if log is None else log.partition.topic_id,
        log=log,
        held=HELD,
        batch_id=17,
    )
    return replace(before, **changes)  # type: ignore[arg-type]


def log(start: int, end: int, partition: Partition = ORDERS) -> PartitionOffsets:
    return PartitionOffsets(partition, start, end, end)


HEALTHY = state(log(0, 5000))
EXPIRED = state(log(1800, 5000))
CUT_BEHIND = state(log(0, 1000))
CUT_INSIDE = state(log(0, 1500))
BEHIND_STORED = state(log(0, 1000), next_offset=200, stored_end=1200, held=OffsetRange(ORDERS, 200, 1900))
RECREATED = state(log(3, 40, NEW_LOG))
GONE = state(None)
FEWER = state(None, topic_id_now="new")


def refusal(kind: DecisionKind, partition_state: PartitionFacts, offset: int | None = None) -> str:
    with pytest.raises(DecisionRefusedError, match="nothing was changed") as raised:
        decide(kind, partition_state, offset)
    return str(raised.value)


@pytest.mark.parametrize(
    ("partition_state", "kind"),
    [
        (HEALTHY, None),
        (EXPIRED, DecisionKind.SKIP_LOST),
        (CUT_BEHIND, DecisionKind.SKIP_LOST),
        (CUT_INSIDE, DecisionKind.SKIP_LOST),
        (replace(BEHIND_STORED, held=None, batch_id=None), DecisionKind.SKIP_LOST),
        (RECREATED, DecisionKind.ACCEPT_TOPIC),
        (FEWER, DecisionKind.ACCEPT_TOPIC),
        (GONE, DecisionKind.SKIP_LOST),
        (replace(GONE, held=None, batch_id=None), None),
        (replace(CUT_INSIDE, held=None, batch_id=None), None),
    ],
)
def test_each_loss_calls_for_its_decision(partition_state: PartitionFacts, kind: DecisionKind | None) -> None:
    assert required_decision(partition_state) == kind


def test_skip_lost_continues_at_the_first_offset_that_kafka_has_and_names_what_is_lost() -> None:
    decision = decide(DecisionKind.SKIP_LOST, EXPIRED)
    assert (decision.to, decision.to_offset, decision.lost) == (ORDERS, 1800, (1200, 1800))
    assert not decision.another_log
    assert str(decision) == (
        "shop: orders 2: skip-lost: the ledger goes from 1200 to 1800; offsets [1200, 1800) (600) get no work order "
        "because retention deleted them before they were read; range [1200, 1900) of batch 17 is superseded."
    )


def test_what_a_log_still_has_before_its_cut_is_read() -> None:
    decision = decide(DecisionKind.SKIP_LOST, CUT_INSIDE)
    assert (decision.to_offset, decision.lost, decision.another_log) == (1200, (1500, 1900), False)


def test_behind_a_cut_the_offsets_mean_other_messages() -> None:
    decision = decide(DecisionKind.SKIP_LOST, CUT_BEHIND)
    assert (decision.to, decision.to_offset, decision.lost, decision.another_log) == (ORDERS, 1000, None, True)
    assert decision.goes_back
    assert "every message from offset 1000 is a new one" in str(decision)


@pytest.mark.parametrize(
    ("first_stored", "offset", "target", "lost", "text"),
    [
        (1000, None, 200, None, "every message from offset 200 is a new one; messages written before offset 200 after"),
        (999, None, 1000, None, "is a new one; of offsets [200, 1000), those without a work order get none; messages"),
        (999, 600, 600, None, "; messages before offset 1000 that have a work order get another one; messages"),
        (None, 600, 600, (200, 600), "is a new one; of offsets [200, 600), those without a work order get none; "),
    ],
)
def test_a_cut_before_the_end_of_what_is_stored_begins_another_log_and_reads_what_is_not_stored_before_it(
    first_stored: int | None, offset: int | None, target: int, *, lost: tuple[int, int] | None, text: str
) -> None:
    decision = decide(DecisionKind.SKIP_LOST, replace(BEHIND_STORED, first_stored=first_stored), offset)
    assert (decision.to_offset, decision.lost, decision.another_log) == (target, lost, True)
    assert "the log was truncated at offset 1000, and work orders exist up to offset 1200; they stay" in str(decision)
    assert text in str(decision)


def test_an_operator_may_know_better_where_a_log_was_cut() -> None:
    assert decide(DecisionKind.SKIP_LOST, CUT_BEHIND, 900).to_offset == 900
    assert "offset 1001 is not in the log, which is [0, 1000) now" in refusal(DecisionKind.SKIP_LOST, CUT_BEHIND, 1001)


def test_resuming_gives_up_what_was_planned_of_a_topic_that_is_gone() -> None:
    decision = decide(DecisionKind.SKIP_LOST, GONE)
    assert (decision.to_offset, decision.lost) == (1900, (1200, 1900))


def test_a_new_topic_is_read_from_its_first_offset_or_the_one_given() -> None:
    first = decide(DecisionKind.ACCEPT_TOPIC, RECREATED)
    assert (first.to, first.to_offset, first.goes_back) == (NEW_LOG, 3, False)
    assert "unread messages of the old topic from offset 1200 are lost" in str(first)
    assert "skipped" not in str(first)
    given = decide(DecisionKind.ACCEPT_TOPIC, RECREATED, 10)
    assert given.to_offset == 10
    assert "offsets [3, 10) of the new topic (7) are skipped" in str(given)


def test_a_partition_that_the_new_topic_lacks_waits_at_its_first_offset() -> None:
    decision = decide(DecisionKind.ACCEPT_TOPIC, FEWER)
    assert (decision.to, decision.to_offset) == (NEW_LOG, 0)
    assert "the new topic does not have this partition" in str(decision)


@pytest.mark.parametrize(("offset", "lost"), [(1300, (1200, 1300)), (1200, None), (5, None)])
def test_starting_over_goes_forward_or_back(offset: int, lost: tuple[int, int] | None) -> None:
    decision = decide(DecisionKind.SEEK, HEALTHY, offset)
    assert (decision.to, decision.to_offset, decision.lost) == (ORDERS, offset, lost)
    assert decision.goes_back == (offset < 1200)


def test_seek_names_what_it_skips_or_reads_again() -> None:
    assert "offsets [1200, 1300) (100) get no work order because they are skipped" in str(
        decide(DecisionKind.SEEK, HEALTHY, 1300)
    )
    assert "offsets [200, 1200) (1,000) are read again: messages that have a work order keep it" in str(
        decide(DecisionKind.SEEK, HEALTHY, 200)
    )
    assert "also those whose work orders retention deleted, which it does after 30 days" in str(
        decide(DecisionKind.SEEK, replace(HEALTHY, kept_days=30.0), 200)
    )


@pytest.mark.parametrize("offset", [-1, 5001])
def test_seek_outside_of_the_log_is_refused(offset: int) -> None:
    assert "is not in the log, which is [0, 5000) now" in refusal(DecisionKind.SEEK, HEALTHY, offset)


def test_seek_before_a_truncation_is_refused_because_it_would_duplicate_work_orders() -> None:
    after_a_cut = replace(HEALTHY, generation=5, start_offset=1000)
    assert decide(DecisionKind.SEEK, after_a_cut, 1000).to_offset == 1000
    assert "would be duplicated" in refusal(DecisionKind.SEEK, after_a_cut, 999)


@pytest.mark.parametrize(
    ("kind", "partition_state", "offset", "reason"),
    [
        (DecisionKind.SKIP_LOST, HEALTHY, None, "so no message is lost"),
        (DecisionKind.SKIP_LOST, RECREATED, None, "its topic was re-created"),
        (DecisionKind.SKIP_LOST, FEWER, None, "its topic was re-created"),
        (DecisionKind.SKIP_LOST, EXPIRED, 1900, "so none can be given here"),
        (DecisionKind.SKIP_LOST, replace(GONE, held=None, batch_id=None), None, "no batch holds it"),
        (DecisionKind.SKIP_LOST, replace(GONE, topic_id_now="old"), None, "reports nothing about this partition now"),
        (DecisionKind.ACCEPT_TOPIC, HEALTHY, None, "there is no new topic to accept"),
        (DecisionKind.ACCEPT_TOPIC, GONE, None, "no topic has that name now"),
        (DecisionKind.ACCEPT_TOPIC, FEWER, 4, "so none can be given here"),
        (DecisionKind.ACCEPT_TOPIC, RECREATED, 41, "is not in the log, which is [3, 40) now"),
        (DecisionKind.SEEK, HEALTHY, None, "seek needs an offset"),
        (DecisionKind.SEEK, RECREATED, 5, "its topic was re-created"),
        (DecisionKind.SEEK, BEHIND_STORED, 300, "its log was truncated below the end of what is stored"),
        (DecisionKind.SEEK, CUT_BEHIND, 5, "its log was truncated below the end of what is stored"),
        (DecisionKind.SEEK, GONE, 5, "Kafka does not have it now"),
    ],
)
def test_a_decision_that_does_not_fit_is_refused(
    kind: DecisionKind, partition_state: PartitionFacts, offset: int | None, reason: str
) -> None:
    assert reason in refusal(kind, partition_state, offset)


def test_a_refusal_names_the_command_that_fits() -> None:
    assert refusal(DecisionKind.SKIP_LOST, RECREATED).endswith(
        "see `workorders resolve accept-topic shop orders --partition 2`. [WO-DECISION-REFUSED]"
    )


def test_a_sentence_without_a_batch_names_none() -> None:
    decision: Decision = decide(DecisionKind.SEEK, replace(HEALTHY, held=None, batch_id=None), 5)
    assert "superseded" not in str(decision)


def test_the_line_to_type_is_quoted_for_a_shell() -> None:
    assert cli_command(DecisionKind.SKIP_LOST, "shop", replace(ORDERS, topic="a.b-c_1")) == (
        "workorders resolve skip-lost shop a.b-c_1 --partition 2"
    )
