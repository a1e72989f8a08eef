"""Points in time as people type and read them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO: Final = re.compile(r"(?P<count>[0-9]{1,6}) ?(?P<unit>[smhdw])")
FORM: Final = "a time such as 2026-03-01, 2026-03-01T14:30 (UTC), 2026-03-01T14:30+01:00, or how long ago: 15m, 2h, 7d"
"""The forms that `parse` reads, for a sentence about a wrong one."""
_FIRST_YEAR: Final = 1970
_LAST_YEAR: Final = 9998


def parse(text: str, *, now: datetime) -> datetime | None:
    """Return the time that the text means, or None when it means none."""
    try:
        ago = _AGO.fullmatch(text.strip())
        if ago:
            time = now - timedelta(**{_UNITS[ago["unit"]]: int(ago["count"])})
        else:
            time = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        return None
    if not _FIRST_YEAR <= time.year <= _LAST_YEAR:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def parse_seconds(text: str) -> float | None:
    """Return the seconds of a duration such as 90s or 15m, or None when the text means none."""
    duration = _AGO.fullmatch(text.strip())
    if duration is None:
        return None
    return timedelta(**{_UNITS[duration["unit"]]: int(duration["count"])}).total_seconds()


def show(time: datetime | None) -> str:
    """Return the time to the second in UTC, in a form that `parse` takes; nothing for None."""
    return "" if time is None else time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
