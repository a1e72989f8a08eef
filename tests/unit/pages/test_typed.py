"""The number that a person types before messages or offsets are given up."""

import pytest

from workorders.pages.problems import WrongInputError
from workorders.pages.typed import require_number


@pytest.mark.parametrize("typed", ["12345", "12,345", " 12345\n"])
def test_a_number_is_accepted_as_people_write_it(typed: str) -> None:
    require_number(typed, 12_345, where="Hold 7", counted="its messages")


@pytest.mark.parametrize("typed", ["", "1234", "12.345", "123456", "12345 of them", "-12345", "12_345"])
def test_anything_else_is_refused_with_the_number(typed: str) -> None:
    with pytest.raises(WrongInputError, match=r"Hold 7: nothing was changed, .* number of its messages \(12,345\)"):
        require_number(typed, 12_345, where="Hold 7", counted="its messages")
