from pathlib import Path

import pytest

from workorders.core.bulk import export
from workorders.core.exceptions import ConfigurationError


@pytest.mark.parametrize("value", ["=1+1", "+cmd", "-cmd", "@x", "\tx"])
def test_a_cell_is_never_a_formula(value: str) -> None:
    assert export.cell(value) == f"'{value}"


@pytest.mark.parametrize("value", ["-12", "12", "{}", "text"])
def test_numbers_and_texts_stay_as_they_are(value: str) -> None:
    assert export.cell(value) == value
    assert export.cell(None) == ""


def test_the_ending_of_the_file_gives_its_form(tmp_path: Path) -> None:
    assert export.export_options(tmp_path / "a.csv")["format"] == "csv"
    assert export.export_options(tmp_path / "a.txt", "jsonl")["format"] == "jsonl"
    with pytest.raises(ConfigurationError, match="'txt', but must be one of jsonl, csv"):
        export.export_options(tmp_path / "a.txt")


def test_a_file_that_is_there_and_a_folder_that_is_not_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    with pytest.raises(ConfigurationError, match="already exists"):
        export.export_options(tmp_path / "a.csv")
    with pytest.raises(ConfigurationError, match=r"folder of .* does not exist"):
        export.export_options(tmp_path / "none" / "a.csv")
