from workorders.kafka.partitions import OffsetRange, Partition, PartitionState, VirtualPartition


def test_a_virtual_partition_is_written_with_the_range_that_people_know() -> None:
    whole = OffsetRange(Partition("orders", 0, "id"), 100, 2100)
    virtual = VirtualPartition(whole.partition, 600, 1100, whole)
    assert str(virtual) == "orders 0 [600, 1100) of [100, 2100)"
    assert (virtual.planned, whole.planned) == (whole, whole)


def test_a_stall_and_a_contradiction_need_attention_and_are_worse_than_all_others() -> None:
    worst = sorted(PartitionState, key=lambda state: state.rank)[:5]
    assert {state for state in PartitionState if state.needs_attention} == set(worst)
    assert {state for state in worst if not state.is_contradiction} == {PartitionState.STALLED}
