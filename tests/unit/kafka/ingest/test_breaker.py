"""When too much of a range is rejected."""

from contextlib import nullcontext

import pytest

from support.work_orders import accepted, rejected
from workorders.core.creation.work_orders import Created
from workorders.core.items import Item, Rejection
from workorders.core.triggers import Trigger
from workorders.kafka.exceptions import TooManyRejectedError
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ingest.breaker import Breaker
from workorders.kafka.partitions import OffsetRange, Partition


def attempt(offsets: int) -> Attempt:
    range_ = OffsetRange(Partition("orders", 0, "id-1"), 100, 100 + offsets)
    return Attempt(7, Trigger(1, "shop", "kafka", 1, "ship"), range_, 1, 100, max_rejected_share=0.5)


def messages(good: int, bad: int) -> list[Item]:
    return [accepted("s", 100 + n) for n in range(good)] + [rejected("s", 100 + good + n) for n in range(bad)]


@pytest.mark.parametrize(
    ("rejected_messages", "all_messages", "tripped"),
    [(51, 100, True), (50, 100, False), (10, 10, True), (9, 9, False), (10, 20, False), (11, 20, True), (0, 0, False)],
)
def test_a_larger_share_than_the_limit_is_too_many_from_ten_messages_on(
    rejected_messages: int, all_messages: int, tripped: bool
) -> None:
    breaker = Breaker(attempt(1000), 0.5)
    list(breaker.watch(messages(all_messages - rejected_messages, rejected_messages)))
    with pytest.raises(TooManyRejectedError) if tripped else nullcontext():
        breaker.require_within_share(Created(all_messages - rejected_messages, rejected_messages))


def test_items_pass_unchanged_as_long_as_the_limit_may_hold() -> None:
    breaker, items = Breaker(attempt(100), 0.5), messages(50, 50)
    assert list(breaker.watch(items)) == items
    breaker.require_within_share(Created(50, 50, 0))


def test_reading_stops_once_no_rest_of_the_range_could_help() -> None:
    read: list[Item] = []
    with pytest.raises(TooManyRejectedError):
        read.extend(Breaker(attempt(100), 0.5).watch(messages(0, 100)))
    assert len(read) == 50


def test_offsets_without_a_message_do_not_lower_the_share() -> None:
    breaker = Breaker(attempt(1000), 0.5)
    list(breaker.watch(messages(9, 11)))
    with pytest.raises(TooManyRejectedError):
        breaker.require_within_share(Created(9, 11, 0))


def test_what_postgres_refused_counts_as_well() -> None:
    breaker = Breaker(attempt(20), 0.5)
    list(breaker.watch(messages(20, 0)))
    with pytest.raises(TooManyRejectedError, match="11 of them as refused-by-postgres"):
        breaker.require_within_share(Created(9, 11, 0))


def test_the_sentence_contains_share_count_most_frequent_reason_and_how_to_continue() -> None:
    items = [*messages(2, 10), *(Item("s", 112 + n, b"{}", None, Rejection("not-utf8", "x")) for n in range(3))]
    breaker = Breaker(attempt(1000), 0.5)
    list(breaker.watch(items))
    with pytest.raises(TooManyRejectedError) as raised:
        breaker.require_within_share(Created(2, 13, 0))
    text = str(raised.value)
    assert text.startswith(
        "shop: orders 0 [100, 1100): 13 of 15 messages read (87%) were rejected, 10 of them as not-json, which is more "
        "than max_rejected_share (0.5) allows. The range was rolled back, and nothing was committed there."
    )
    assert "raise or remove max_rejected_share in the trigger's file" in text
