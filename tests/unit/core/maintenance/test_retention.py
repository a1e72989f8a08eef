from datetime import UTC, datetime, timedelta

import pytest

from workorders.core.maintenance.retention import Policy

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def age(days: int | None) -> timedelta | None:
    return None if days is None else timedelta(days=days)


@pytest.mark.parametrize(
    ("days", "delete_errors_after", "good", "errors"),
    [
        (30, 90, 30, 90),
        (30, None, 30, 30),
        # Errors are kept longer, never shorter.
        (30, 7, 30, 30),
        (None, 7, None, 7),
        (None, None, None, None),
    ],
)
def test_errors_are_kept_at_least_as_long_as_the_rest(
    days: int | None, delete_errors_after: int | None, good: int | None, errors: int | None
) -> None:
    policy = Policy(1, "admit", age(days), age(delete_errors_after), None)
    never = datetime(1970, 1, 1, tzinfo=UTC)
    assert policy.good_before(NOW) == (never if good is None else NOW - timedelta(days=good))
    assert policy.errors_before(NOW) == (never if errors is None else NOW - timedelta(days=errors))
    assert policy.wipe_before(NOW) == never
