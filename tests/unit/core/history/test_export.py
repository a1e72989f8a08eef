import pytest

from workorders.core.history import export


@pytest.mark.parametrize("value", ["=1+1", "+cmd", "-cmd", "@x", "\tx"])
def test_a_cell_is_never_a_formula(value: str) -> None:
    assert export.cell(value) == f"'{value}"


@pytest.mark.parametrize("value", ["-12", "12", "{}", "text"])
def test_numbers_and_texts_stay_as_they_are(value: str) -> None:
    assert export.cell(value) == value
    assert export.cell(None) == ""
