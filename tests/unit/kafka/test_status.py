from dataclasses import replace
from datetime import UTC, datetime

import pytest

from workorders.kafka.ledger.positions import PartitionStatus
from workorders.kafka.partitions import Partition, PartitionOffsets
from workorders.kafka.status import KafkaAnswer, PartitionRow, merge

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ORDERS = Partition("orders", 0, "id-1")
ROW = PartitionStatus(
    trigger="orders",
    topic="orders",
    partition=0,
    topic_id="id-1",
    next_offset=100,
    status="active",
    status_since=NOON,
    attempts=0,
    next_attempt_at=None,
    last_error=None,
    batch_id=None,
    stored_end=100,
)
STALLED = replace(ROW, status="stalled", attempts=3, next_attempt_at=NOON, last_error="Gone.", batch_id=7)


def log(start: int = 0, stable: int = 100, end: int = 100, partition: Partition = ORDERS) -> PartitionOffsets:
    return PartitionOffsets(partition, start, stable, end)


def one(row: PartitionStatus, *logs: PartitionOffsets, group: int | None = 100) -> PartitionRow:
    (merged,) = merge([row], KafkaAnswer(logs, {ORDERS: group}))
    return merged


@pytest.mark.parametrize(
    ("row", "end", "word"),
    [
        (ROW, log(), "up to date"),
        (ROW, log(stable=101, end=101), "behind"),
        (ROW, log(stable=101, end=105), "behind"),
        (ROW, log(stable=100, end=105), "waiting for an open transaction"),
        (replace(ROW, batch_id=7), log(stable=200, end=200), "in batch 7"),
        (STALLED, log(), "stalled"),
        (STALLED, log(start=500, stable=600, end=600), "stalled"),
        (ROW, log(start=101, stable=200, end=200), "unread messages deleted"),
        (ROW, log(start=100, stable=200, end=200), "behind"),
        (ROW, log(stable=99, end=99), "log truncated"),
        (ROW, log(partition=Partition("orders", 0, "id-2")), "topic re-created"),
    ],
)
def test_the_status_names_what_keeps_a_partition_where_it_is(
    row: PartitionStatus, end: PartitionOffsets, word: str
) -> None:
    assert one(row, end).status == word


def test_lags_end_at_the_last_stable_offset_and_not_at_the_high_watermark() -> None:
    merged = one(ROW, log(stable=130, end=190), group=90)
    assert (merged.lag, merged.committed_lag) == (30, 40)
    assert (merged.next_offset, merged.committed_offset) == (100, 90)
    assert (merged.last_stable, merged.high_watermark) == (130, 190)


def test_no_lag_is_told_between_two_topics_of_one_name() -> None:
    again = Partition("orders", 0, "id-2")
    (merged,) = merge([ROW], KafkaAnswer([log(stable=500, end=500, partition=again)], {again: 3}))
    assert (merged.lag, merged.committed_lag) == (None, None)


def test_without_kafka_the_ledger_is_shown_and_the_rest_is_unknown() -> None:
    (merged, stalled) = merge([ROW, replace(STALLED, partition=1)], KafkaAnswer(problem="Kafka did not answer."))
    assert (merged.next_offset, merged.status) == (100, "?")
    assert (merged.committed_offset, merged.last_stable, merged.high_watermark) == (None, None, None)
    assert (merged.lag, merged.committed_lag) == (None, None)
    assert stalled.status == "stalled"


def test_a_partition_that_kafka_does_not_have_is_shown() -> None:
    (merged,) = merge([ROW], KafkaAnswer([]))
    assert (merged.next_offset, merged.last_stable, merged.status) == (100, None, "not in Kafka")


def test_a_partition_that_was_never_planned_is_shown_in_its_place() -> None:
    new = Partition("orders", 0, "id-1")
    answer = KafkaAnswer([log(partition=Partition("orders", 1, "id-1")), log(stable=5, end=5, partition=new)], {new: 2})
    first, second = merge([replace(ROW, partition=1)], answer)
    assert (first.partition, first.status) == (0, "not planned yet")
    assert (first.next_offset, first.lag, first.committed_lag) == (None, None, 3)
    assert second.partition == 1


def test_since_and_the_next_try_are_those_of_a_stall() -> None:
    stalled = one(STALLED, log())
    assert (stalled.since, stalled.attempts, stalled.next_attempt_at) == (NOON, 3, NOON)
    assert (stalled.last_error, stalled.batch_id) == ("Gone.", 7)
    assert one(ROW, log()).since is None
