from typing import Any

import pytest

from workorders.kafka.spark.driver import groups_of_writers


@pytest.mark.parametrize(
    ("ranges", "max_writers", "groups"),
    [
        (5, 2, [[0, 1], [2, 3], [4]]),
        (4, 2, [[0, 1], [2, 3]]),
        (2, 4, [[0, 1]]),
        (3, None, [[0, 1, 2]]),
        (0, None, []),
        (0, 2, []),
    ],
)
def test_each_range_is_in_one_group_and_no_group_has_more_ranges_than_writers(
    ranges: int, max_writers: int | None, groups: list[list[int]]
) -> None:
    attempts: Any = list(range(ranges))
    found: Any = groups_of_writers(attempts, max_writers)
    assert found == groups
