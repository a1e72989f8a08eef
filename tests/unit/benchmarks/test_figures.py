"""Figures show whether their bar is met, and are written down whole."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import figures
from benchmarks.figures import Bar, Figure, middle, percentile, show, write
from benchmarks.suite import against


def test_a_bar_from_below_is_met_at_its_limit_and_above() -> None:
    assert [Bar(0.7).met_by(measured) for measured in (0.69, 0.7, 0.71)] == [False, True, True]


def test_a_bar_from_above_is_met_at_its_limit_and_below() -> None:
    assert [Bar(1.4, at_most=True).met_by(measured) for measured in (1.39, 1.4, 1.41)] == [True, True, False]


def test_a_figure_is_held_against_its_bar_by_its_ratio() -> None:
    assert Figure("create_for", 80_000, "rows/s", ratio=0.5, bar=Bar(0.7)).met is False
    assert Figure("create_for", 80_000, "rows/s", ratio=0.8, bar=Bar(0.7)).met is True


def test_a_figure_without_a_ratio_is_held_against_its_bar_by_its_value() -> None:
    assert Figure("idle", 9.0, "%", bar=Bar(10, at_most=True)).met is True


def test_a_figure_without_a_bar_is_neither_met_nor_missed() -> None:
    assert Figure("raw COPY", 100_000, "rows/s").met is None


def test_several_measurements_become_their_median_and_are_kept() -> None:
    figure = middle("raw COPY", [3.0, 1.0, 2.0], "s")
    assert (figure.value, figure.runs) == (2.0, (3.0, 1.0, 2.0))


def test_a_ratio_is_the_median_of_pairs_and_not_the_ratio_of_medians() -> None:
    # The machine was slow in the second round for both: the pairs agree, while the medians would give 4/5.
    figure = against("ours", [8.0, 1.0, 4.0], [10.0, 2.0, 5.0], "raw COPY")
    assert figure.ratio == pytest.approx(0.8)
    assert figure.value == 4.0


def test_a_missed_bar_is_seen_in_the_table() -> None:
    console = Console(width=200, record=True, file=Path("/dev/null").open("w"))  # noqa: SIM115 - closed with the test
    show(console, "create_for", [Figure("ready items", 60_000, "rows/s", ratio=0.6, ratio_to="raw COPY", bar=Bar(0.7))])
    text = console.export_text()
    assert ">= 0.7" in text
    assert "MISSED" in text


def test_the_file_has_the_figures_the_machine_and_the_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "FOLDER", tmp_path / "bench")
    path = write("copy", [Figure("raw COPY", 5.0, "rows/s", runs=(5.0,), ratio=0.9, bar=Bar(0.7))], quick=True)
    content = json.loads(path.read_text())
    assert path == tmp_path / "bench" / "copy.quick.json"
    assert write("copy", [], quick=False).name == "copy.json"
    assert content["quick"] is True
    assert content["machine"]["cores"] >= 1
    assert content["versions"]["psycopg"]
    (figure,) = content["figures"]
    assert figure["name"] == "raw COPY"
    assert (figure["value"], figure["unit"], figure["ratio"]) == (5.0, "rows/s", 0.9)
    assert (figure["bar"], figure["met"]) == ({"limit": 0.7, "at_most": False}, True)


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert percentile(values, 95) == 95
    assert percentile([7.0], 95) == 7
