"""The options that take a point in time, and a duration."""

from datetime import UTC, datetime

import typer

from workorders import times


def option(text: str) -> datetime:
    """Return the time that an option was given.

    Raises:
        typer.BadParameter: the text means no time; the command line ends with the right form.
    """
    time = times.parse(text, now=datetime.now(UTC))
    if time is None:
        raise typer.BadParameter(f"expected {times.FORM}; got {text!r}.")
    return time


def seconds(text: str) -> float:
    """Return the seconds of a duration that an option was given, such as 90s or 15m.

    Raises:
        typer.BadParameter: the text means no duration.
    """
    found = times.parse_seconds(text)
    if found is None:
        raise typer.BadParameter(f"expected a duration such as 90s, 15m, 2h, 7d; got {text!r}.")
    return found
