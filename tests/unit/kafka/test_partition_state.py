from workorders.kafka.partition_state import PartitionState


def test_a_stall_and_a_contradiction_need_attention_and_are_worse_than_all_others() -> None:
    worst = sorted(PartitionState, key=lambda state: state.rank)[:5]
    assert {state for state in PartitionState if state.needs_attention} == set(worst)
    assert {state for state in worst if not state.is_contradiction} == {PartitionState.STALLED}
    assert {state for state in PartitionState if state.tone == "bad"} == set(worst)
