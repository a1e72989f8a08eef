import pytest
from hypothesis import given
from hypothesis import strategies as st

from workorders.core.outage_delay import delay_seconds


def test_the_wait_doubles_up_to_a_minute() -> None:
    assert [delay_seconds(failures) for failures in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]


@pytest.mark.parametrize("failures", [-1, 0, 1])
def test_the_shortest_wait_is_a_second(failures: int) -> None:
    assert delay_seconds(failures) == 1


@given(st.integers(7, 10**18))
def test_it_continues_without_end(failures: int) -> None:
    assert delay_seconds(failures) == 60
