"""Durations and points in time as people type and read them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
"""Seconds of the units of a duration."""
_DURATION: Final = re.compile(rf"([0-9]+(?:\.[0-9]+)?)({'|'.join(UNITS)})")
FORM: Final = "a time such as 2026-03-01, 2026-03-01T14:30 (UTC), 2026-03-01T14:30+01:00, or how long ago: 15m, 2h, 7d"
"""The forms that `parse` reads, for a sentence about a wrong one."""
_FIRST_YEAR: Final = 1970
_LAST_YEAR: Final = 9998


def parse(text: str, *, now: datetime) -> datetime | None:
    """Return the time that the text means, or None when it means none."""
    try:
        ago = parse_seconds(text)
        time = datetime.fromisoformat(text.strip()) if ago is None else now - timedelta(seconds=ago)
    except (ValueError, OverflowError):
        return None
    if not _FIRST_YEAR <= time.year <= _LAST_YEAR:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def parse_seconds(text: str) -> float | None:
    """Return the seconds of a duration such as 90s or 15m, or None when the text means none."""
    duration = _DURATION.fullmatch(text.strip())
    return None if duration is None else float(duration[1]) * UNITS[duration[2]]


def show(time: datetime | None) -> str:
    """Return the time to the second in UTC, in a form that `parse` takes; nothing for None."""
    return "" if time is None else time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
