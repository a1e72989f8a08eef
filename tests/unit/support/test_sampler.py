"""A contradiction is one at the instant at which it is seen."""

from support.sampler import PartitionSnapshot, contradiction


def test_a_group_behind_or_at_the_ledger_is_none() -> None:
    assert contradiction({0: 5}, PartitionSnapshot(0, 5, 5, 0)) is None
    assert contradiction({0: 4}, PartitionSnapshot(0, 5, 5, 0)) is None
    assert contradiction({}, PartitionSnapshot(0, 0, 0, 0)) is None


def test_a_group_ahead_of_the_ledger_is_one() -> None:
    assert contradiction({0: 6}, PartitionSnapshot(0, 5, 5, 0)) == "partition 0: the group is at 6, the ledger at 5"


def test_another_partitions_group_is_none() -> None:
    assert contradiction({1: 6}, PartitionSnapshot(0, 5, 5, 0)) is None


def test_work_orders_ahead_of_the_ledger_are_one() -> None:
    assert contradiction({}, PartitionSnapshot(2, 5, 5, 3)) == "partition 2: 3 work orders lie ahead of 5"


def test_an_offset_without_a_work_order_before_the_ledger_is_one_only_where_there_are_no_gaps() -> None:
    assert contradiction({}, PartitionSnapshot(0, 5, 4, 0)) is None
    assert contradiction({}, PartitionSnapshot(0, 5, 5, 0), gapless=True) is None
    assert contradiction({}, PartitionSnapshot(0, 5, 4, 0), gapless=True) == "partition 0: 4 work orders lie before 5"
