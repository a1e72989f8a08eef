import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.definitions import define
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import ConfigurationError
from workorders.core.workflows import Workflow
from workorders.kafka.partitions import OffsetRange, Partition
from workorders.kafka.planning.virtual_partitions import MIN_MESSAGES, cut, require_no_order

PARTITION = Partition("orders", 0, "id")


@given(start=st.integers(0, 2**62), size=st.integers(1, 10_000_000), count=st.integers(1, 32))
def test_the_parts_are_the_whole_range_without_gaps_and_none_is_too_small(start: int, size: int, count: int) -> None:
    whole = OffsetRange(PARTITION, start, start + size)
    parts = cut(whole, count)
    if not parts:
        assert count == 1 or size < 2 * MIN_MESSAGES
        return
    assert 2 <= len(parts) <= count
    assert (parts[0].start, parts[-1].end) == (whole.start, whole.end)
    assert [range_.end for range_ in parts[:-1]] == [range_.start for range_ in parts[1:]]
    sizes = {range_.end - range_.start for range_ in parts}
    assert min(sizes) >= MIN_MESSAGES
    assert max(sizes) - min(sizes) <= 1
    assert {range_.planned for range_ in parts} == {whole}


def test_a_range_has_as_many_parts_as_the_trigger_allows() -> None:
    parts = cut(OffsetRange(PARTITION, 5, 10_005), 4)
    assert [(range_.start, range_.end) for range_ in parts] == [(5, 2505), (2505, 5005), (5005, 7505), (7505, 10_005)]


@pytest.mark.parametrize(
    ("field", "reason"),
    [({"ordering_key": "key"}, "has the ordering_key key"), ({"concurrency": 1}, "has concurrency: 1")],
)
def test_a_workflow_that_needs_order_refuses_them(field: dict[str, object], reason: str) -> None:
    workflow = WorkflowDefinition.model_validate({"name": "admit", "callable": "shop:ship", **field})
    with pytest.raises(ConfigurationError) as refused:
        require_no_order(define("orders", virtual_partitions=4), Workflow(1, "admit", workflow))
    assert str(refused.value) == (
        f"orders: virtual_partitions: expected 1, because workflow admit {reason} and virtual partitions are written "
        f"in any order, got 4. Nothing was planned or read; remove virtual_partitions from the trigger's file, or the "
        f"order from the workflow."
    )


@pytest.mark.parametrize("field", [{}, {"concurrency": 2}])
def test_a_workflow_without_order_takes_them(field: dict[str, object]) -> None:
    workflow = WorkflowDefinition.model_validate({"name": "admit", "callable": "shop:ship", **field})
    require_no_order(define("orders", virtual_partitions=4), Workflow(1, "admit", workflow))


def test_a_workflow_that_no_file_has_defined_yet_takes_them() -> None:
    require_no_order(define("orders", virtual_partitions=4), Workflow(1, "admit", None))
