"""What needs a person comes first, and what needs nobody does not come."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from workorders.kafka.status.partition_status import PartitionRow, TriggerStatus
from workorders.outbox.admin import Hold, ShardStatus
from workorders.pages import needs
from workorders.pages.kafka_state import rank, word_of
from workorders.pages.overview import KafkaLine

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROW = PartitionRow(
    topic="orders",
    partition=0,
    topic_id="t",
    next_offset=5,
    group_offset=5,
    last_stable=5,
    high_watermark=5,
    lag=0,
    group_lag=0,
    status="up to date",
)
STALLED = replace(ROW, partition=1, status="stalled", since=NOW, last_error="first line\nsecond line")
HOLD = Hold(7, "key", "shipments", b"k", "too large", 3, NOW - timedelta(hours=1), NOW, 12)
SHARD = ShardStatus(0, 1, None, None, None, 0, 0, 0, None)


def line(*rows: PartitionRow, is_paused: bool = False) -> KafkaLine:
    status = TriggerStatus("orders", "ship", "g", "kafka_default", None, rows)
    return KafkaLine(status, None, None, None, is_paused, asked_kafka=True)


def test_nothing_needs_a_person_where_all_is_well() -> None:
    assert needs.of([line(ROW)], [SHARD], [], []) == []


def test_a_stalled_partition_comes_with_its_error_and_its_page() -> None:
    (need,) = needs.of([line(ROW, STALLED)], [], [], [])
    assert (need.subject, need.state, need.since) == ("orders: orders 1", "stalled", NOW)
    assert "first line" in need.sentence
    assert "\n" not in need.sentence
    assert need.page == ("kafka", "orders")


def test_a_partition_that_contradicts_kafka_needs_a_decision_before_it_stalls() -> None:
    (need,) = needs.of([line(replace(ROW, status="topic re-created"))], [], [], [])
    assert need.button == "Decide"


def test_what_has_lasted_longest_comes_first() -> None:
    found = needs.of([line(STALLED)], [replace(SHARD, last_error="no right")], [HOLD], [])
    assert [need.subject for need in found] == ["Outbox shard 0", "Outbox topic shipments", "orders: orders 1"]


def test_a_paused_listener_needs_a_person_only_if_messages_wait() -> None:
    assert needs.of([line(ROW, is_paused=True)], [], [], []) == []
    (need,) = needs.of([line(replace(ROW, lag=4, status="behind"), is_paused=True)], [], [], [])
    assert need.state == "paused"
    assert "4 offsets wait" in need.sentence


def test_the_worst_partition_stands_for_its_trigger() -> None:
    rows = [ROW, replace(ROW, status="in batch 7"), replace(ROW, status="behind")]
    status = line(*rows).status
    assert word_of(status, is_paused=False) == "behind"
    assert word_of(status, is_paused=True) == "paused"
    assert word_of(line(*rows, STALLED).status, is_paused=True) == "stalled"
    assert word_of(line().status, is_paused=False) == "not planned yet"


def test_partitions_are_sorted_by_what_is_worst_and_then_by_lag() -> None:
    behind, more = replace(ROW, status="behind", lag=1), replace(ROW, status="behind", lag=9)
    assert sorted([ROW, behind, STALLED, more], key=rank) == [STALLED, more, behind, ROW]
