import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from workorders.core.triggers import Trigger
from workorders.kafka.client.requests import Answers
from workorders.kafka.exceptions import DataLostError, RangeError, TopicRecreatedError
from workorders.kafka.ingest.log_checks import PreflightResult, check_batch, first_readable_offset, require_same_log
from workorders.kafka.ledger.batches import Batch, BatchRange
from workorders.kafka.partitions import OffsetRange, Partition, PartitionOffsets, VirtualPartition

ORDERS = Partition("orders", 0, "id")
PLANNED = BatchRange(OffsetRange(ORDERS, 100, 200), None, None, None)
FINISHED = BatchRange(OffsetRange(ORDERS, 100, 200), datetime(2026, 1, 1, tzinfo=UTC), 90, 10)
HEALTHY = PartitionOffsets(ORDERS, 0, 200, 200)


@pytest.mark.parametrize("range_", [PLANNED, FINISHED])
@pytest.mark.parametrize("log_start", [0, 99, 100])
def test_a_range_that_kafka_still_has_is_read_from_its_start(range_: BatchRange, log_start: int) -> None:
    assert first_readable_offset("shop", range_, replace(HEALTHY, log_start=log_start)) == 100


@pytest.mark.parametrize(("log_start", "gone"), [(101, "[100, 101)"), (200, "[100, 200)"), (900, "[100, 900)")])
def test_what_retention_deleted_unread_is_named(log_start: int, gone: str) -> None:
    with pytest.raises(DataLostError) as raised:
        first_readable_offset("shop", PLANNED, PartitionOffsets(ORDERS, log_start, 1000, 1000))
    assert str(raised.value) == (
        f"orders 0 [100, 200): offsets {gone} were deleted by retention before they were read; nothing was committed "
        f"there and nothing was skipped; an operator must decide how to continue: "
        f"`workorders resolve skip-lost shop orders --partition 0`. [WO-DATA-LOST]"
    )


def test_a_log_that_was_cut_short_is_named_with_its_end() -> None:
    with pytest.raises(DataLostError, match=r"^orders 0 \[100, 200\): the log ends at offset 199, so it was truncated"):
        first_readable_offset("shop", PLANNED, PartitionOffsets(ORDERS, 0, 150, 199))


@pytest.mark.parametrize(
    ("end", "gone"), [(150, ", and unread offsets [150, 200) are lost;"), (99, "planned; nothing")]
)
def test_what_a_cut_took_unread_is_named(end: int, gone: str) -> None:
    with pytest.raises(DataLostError) as raised:
        first_readable_offset("shop", PLANNED, PartitionOffsets(ORDERS, 0, end, end))
    assert gone in str(raised.value)
    assert "`workorders resolve skip-lost shop orders --partition 0`." in str(raised.value)


@pytest.mark.parametrize("end", [199, 99])
def test_a_replay_is_not_read_from_a_log_that_ends_before_it(end: int) -> None:
    with pytest.raises(DataLostError, match="was truncated"):
        first_readable_offset("shop", FINISHED, PartitionOffsets(ORDERS, 0, end, end))


RECREATED = PartitionOffsets(replace(ORDERS, topic_id="other"), 0, 1000, 1000)


@pytest.mark.parametrize(
    ("range_", "log"),
    [(replace(FINISHED, of_earlier_log=True), HEALTHY), (FINISHED, RECREATED), (FINISHED, None)],
    ids=["truncated, and decided", "re-created", "deleted"],
)
def test_a_replay_of_a_log_that_is_gone_reads_nothing(range_: BatchRange, log: PartitionOffsets | None) -> None:
    assert first_readable_offset("shop", range_, log) == 200


@pytest.mark.parametrize("range_", [PLANNED, FINISHED])
def test_a_log_that_ends_before_what_is_stored_is_not_read_at_all(range_: BatchRange) -> None:
    """The ledger was set back; what comes at the offsets after the cut would be taken for what is stored there."""
    with pytest.raises(DataLostError, match=r"the log ends at offset 250, .* and work orders exist up to offset 300;"):
        first_readable_offset("shop", replace(range_, stored_end=300), PartitionOffsets(ORDERS, 0, 250, 250))


@pytest.mark.parametrize("log_start", [0, 150, 900])
def test_what_is_deleted_after_it_was_read_is_no_loss(log_start: int) -> None:
    require_same_log("shop", PLANNED.range, 100, PartitionOffsets(ORDERS, log_start, 1000, 1000))


def test_an_open_transaction_inside_the_log_is_no_cut() -> None:
    assert first_readable_offset("shop", PLANNED, PartitionOffsets(ORDERS, 0, 150, 200)) == 100


def test_a_recreated_topic_is_never_read_with_the_old_offsets() -> None:
    with pytest.raises(TopicRecreatedError, match=r"topic orders was deleted and re-created"):
        first_readable_offset("shop", PLANNED, RECREATED)


@pytest.mark.parametrize(("log_start", "begin"), [(0, 100), (100, 100), (150, 150), (200, 200), (900, 200)])
def test_a_replay_begins_where_kafka_still_has_the_range(log_start: int, begin: int) -> None:
    assert first_readable_offset("shop", FINISHED, PartitionOffsets(ORDERS, log_start, 1000, 1000)) == begin


def test_every_sentence_states_that_nothing_was_committed_and_who_decides() -> None:
    logs = [
        None,
        PartitionOffsets(ORDERS, 150, 200, 200),
        PartitionOffsets(ORDERS, 0, 150, 150),
        RECREATED,
    ]
    for log in logs:
        with pytest.raises(RangeError, match="nothing was committed there and nothing was skipped; an operator must"):
            first_readable_offset("shop", PLANNED, log)


class Cluster:
    """Answers with some logs."""

    def __init__(self, *logs: PartitionOffsets) -> None:
        self._logs = {log.partition.topic_partition: log for log in logs}

    async def log_ends(self, *_: object, **__: object) -> Answers[dict[tuple[str, int], PartitionOffsets]]:
        return Answers(self._logs, {})

    async def cluster_id(self) -> str:
        return "cluster"


def checked(ranges: Sequence[BatchRange], *logs: PartitionOffsets) -> PreflightResult:
    """Check a batch of ranges."""
    batch = Batch(7, Trigger(1, "shop", "kafka", 1, "ship"), {}, datetime(2026, 1, 1, tzinfo=UTC), tuple(ranges))
    cluster: Any = Cluster(*logs)
    return asyncio.run(check_batch(cluster, batch, epoch=1))


def test_one_bad_range_leaves_the_others_of_a_batch_readable() -> None:
    patients, visits = Partition("patients", 1, "id"), Partition("visits", 2, "id")
    parts = [
        PLANNED,
        BatchRange(OffsetRange(patients, 5, 6), None, None, None),
        BatchRange(OffsetRange(visits, 0, 9), None, None, None),
    ]
    found = checked(parts, HEALTHY, PartitionOffsets(replace(visits, topic_id="other"), 0, 9, 9))
    assert [(attempt.range, attempt.read_from) for attempt in found.attempts] == [(PLANNED.range, 100)]
    assert {range_.partition: type(error) for range_, error in found.unreadable.items()} == {
        patients: DataLostError,
        visits: TopicRecreatedError,
    }


def test_only_the_virtual_partition_whose_messages_are_gone_is_unreadable_unless_the_log_was_cut() -> None:
    parts = [
        BatchRange(VirtualPartition(ORDERS, start, start + 50, PLANNED.range), None, None, None) for start in (100, 150)
    ]
    cut = replace(PLANNED, virtual_partitions=tuple(parts))
    log = PartitionOffsets(ORDERS, 120, 200, 200)
    found = checked([cut], log)
    assert [(attempt.range, attempt.read_from) for attempt in found.attempts] == [(parts[1].range, 150)]
    assert list(found.unreadable) == [PLANNED.range]
    error = str(found.unreadable[PLANNED.range])
    assert "orders 0 [100, 150) of [100, 200): offsets [100, 120) were deleted" in error
    assert not checked([cut], replace(log, log_start=0, high_watermark=199)).attempts
