"""Points in time as people type and read them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import typer

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO: Final = re.compile(r"(?P<count>[0-9]{1,6}) ?(?P<unit>[smhdw])")
_FORM: Final = "a time such as 2026-03-01, 2026-03-01T14:30 (UTC), 2026-03-01T14:30+01:00, or how long ago: 15m, 2h, 7d"
_FIRST_YEAR: Final = 1970
_LAST_YEAR: Final = 9998


def option(text: str) -> datetime:
    """Return the time that an option was given.

    Raises:
        typer.BadParameter: the text means no time; the command line ends with the right form.
    """
    time = parse(text, now=datetime.now(UTC))
    if time is None:
        raise typer.BadParameter(f"expected {_FORM}; got {text!r}.")
    return time


def seconds(text: str) -> float:
    """Return the seconds of a duration that an option was given, such as 90s or 15m.

    Raises:
        typer.BadParameter: the text means no duration.
    """
    duration = _AGO.fullmatch(text.strip())
    if duration is None:
        raise typer.BadParameter(f"expected a duration such as 90s, 15m, 2h, 7d; got {text!r}.")
    return timedelta(**{_UNITS[duration["unit"]]: int(duration["count"])}).total_seconds()


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


def show(time: datetime | None) -> str:
    """Return the time to the second in UTC, in a form that `parse` takes; nothing for None."""
    return "" if time is None else time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
