from datetime import UTC, datetime, timedelta, timezone

import pytest

from workorders.times import parse, show

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("15m", NOW - timedelta(minutes=15)),
        ("1.5h", NOW - timedelta(hours=1.5)),
        ("7d", NOW - timedelta(days=7)),
        ("2026-02-03", datetime(2026, 2, 3, tzinfo=UTC)),
        ("2026-02-03T04:05", datetime(2026, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-02-03T04:05Z", datetime(2026, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-02-03T04:05+01:00", datetime(2026, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1)))),
    ],
)
def test_a_time_is_iso_8601_or_how_long_ago(text: str, time: datetime) -> None:
    assert parse(text, now=NOW) == time


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2 h", "2h30m", "-2h", "h", "0001-01-01", "9999-12-31", "2026-13-01"]
)
def test_what_means_no_time_is_none(text: str) -> None:
    assert parse(text, now=NOW) is None


def test_a_time_far_in_the_past_is_none() -> None:
    assert parse("999999w", now=NOW) is None


def test_a_shown_time_can_be_typed_again() -> None:
    shown = show(datetime(2026, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=1))))
    assert shown == "2026-02-03T03:05:06Z"
    assert parse(shown, now=NOW) == datetime(2026, 2, 3, 3, 5, 6, tzinfo=UTC)
    assert show(None) == ""
