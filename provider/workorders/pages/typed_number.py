"""The number that a person types before messages are given up or deleted: it shows that it was read."""

from workorders.pages.problems import WrongInputError


def require_typed(typed: str, number: int, *, where: str, counted: str) -> None:
    """Accept the number that a page has shown, with or without white space, commas, and points.

    Args:
        typed: what the person typed.
        number: what the page has shown.
        where: what would be changed, for the error.
        counted: what the number is that of, for the error.

    Raises:
        WrongInputError: another number was typed, or none.
    """
    # The script of the pages enables the button by the same rule.
    if "".join(char for char in typed if not char.isspace() and char not in ",.") != str(number):
        raise WrongInputError(
            f"{where}: nothing was changed, because the number of {counted} ({number:,}) was not typed."
        )
