"""Which finished batches become one."""

from dataclasses import replace

import pytest

from workorders.kafka.ledger.batch_merges import MAX_OFFSETS, Log, Mergeable
from workorders.kafka.ledger.batch_merges import groups as groups_up_to

ZERO, ONE = Log("orders", 0, "id", 0), Log("orders", 1, "id", 0)


def groups(batches: list[Mergeable], max_offsets: int = MAX_OFFSETS) -> list[list[int]]:
    return groups_up_to(batches, max_offsets)


def batch(id_: int, **ranges: tuple[int, int]) -> Mergeable:
    """Return a batch with ranges of the partitions `zero` and `one`."""
    logs = {"zero": ZERO, "one": ONE}
    return Mergeable(id_, {logs[name]: offsets for name, offsets in ranges.items()})


def test_neighbors_whose_ranges_follow_one_another_become_one() -> None:
    assert groups([batch(3, zero=(0, 5)), batch(7, zero=(5, 6)), batch(8, zero=(6, 9))]) == [[3, 7, 8]]


def test_a_partition_may_be_in_some_of_the_batches_only() -> None:
    first, second, third = batch(1, zero=(0, 5)), batch(2, one=(7, 8)), batch(3, zero=(5, 6), one=(8, 9))
    assert groups([first, second, third]) == [[1, 2, 3]]


@pytest.mark.parametrize("start", [4, 6], ids=["overlap", "gap"])
def test_ranges_that_do_not_follow_one_another_stay_apart(start: int) -> None:
    """An operator set the ledger back, or jumped ahead."""
    batches = [batch(1, zero=(0, 5)), batch(2, zero=(start, 7)), batch(3, zero=(7, 8))]
    assert groups(batches) == [[2, 3]]


@pytest.mark.parametrize("changed", [ZERO._replace(topic_id="new"), ZERO._replace(generation=9)])
def test_offsets_of_another_log_stay_apart(changed: Log) -> None:
    """The topic was re-created, or its log truncated."""
    assert groups([batch(1, zero=(0, 5)), Mergeable(2, {changed: (5, 6)}), Mergeable(3, {changed: (6, 7)})]) == [[2, 3]]


def test_batches_of_several_filters_stay_apart() -> None:
    """A replay takes what the filter of its one batch takes."""
    filters = [None, None, "a", "a", "b"]
    batches = [replace(batch(n, zero=(n, n + 1)), filter=filter_) for n, filter_ in enumerate(filters)]
    assert groups(batches) == [[0, 1], [2, 3]]


def test_a_batch_that_must_stay_as_it_is_separates_its_neighbors() -> None:
    batches = [batch(number, zero=(number, number + 1)) for number in range(1, 6)]
    batches[2] = replace(batches[2], can_merge=False)
    assert groups(batches) == [[1, 2], [4, 5]]


def test_a_merged_batch_has_a_maximum_of_offsets_over_all_partitions() -> None:
    batches = [batch(number, zero=(10 * number, 10 * number + 10), one=(number, number + 1)) for number in range(5)]
    assert groups(batches, 22) == [[0, 1], [2, 3]]
    assert groups(batches, 21) == []


def test_one_batch_alone_is_not_merged() -> None:
    assert groups([]) == groups([batch(1, zero=(0, 5))]) == []
