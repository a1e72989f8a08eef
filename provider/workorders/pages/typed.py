"""What a person types before a change: its reason, and the number of what is given up or deleted."""

from typing import Final

from workorders.pages.problems import WrongInputError

_MAX_REASON: Final = 1_000


def read_reason(typed: str) -> str:
    """Return why a change is made, as it is recorded: in one line.

    Raises:
        WrongInputError: there is no reason, or it is longer than 1,000 characters.
    """
    reason = " ".join(typed.split())
    if not reason or len(reason) > _MAX_REASON:
        raise WrongInputError(
            f"reason: nothing was changed, because this takes 1 to {_MAX_REASON} characters, which are recorded."
        )
    return reason


def require_number(typed: str, number: int, *, where: str, counted: str) -> None:
    """Accept the number that a page has shown, with or without commas: whoever types it has read it.

    Args:
        typed: what the person typed.
        number: what the page has shown.
        where: what would be changed, for the error.
        counted: what the number is that of, for the error.

    Raises:
        WrongInputError: another number was typed, or none.
    """
    if typed.strip().replace(",", "") != str(number):
        raise WrongInputError(
            f"{where}: nothing was changed, because the number of {counted} ({number:,}) was not typed."
        )
