"""Figures show whether their bar is met."""

from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.figures import Bar, Figure, percentile, show
from benchmarks.suite import against


@pytest.mark.parametrize(
    ("figure", "met"),
    [
        (Figure("create_for", 80_000, "rows/s", ratio=0.69, bar=Bar(0.7)), False),
        (Figure("create_for", 80_000, "rows/s", ratio=0.7, bar=Bar(0.7)), True),
        (Figure("idle", 10.0, "%", bar=Bar(10, at_most=True)), True),
        (Figure("idle", 10.1, "%", bar=Bar(10, at_most=True)), False),
        (Figure("raw COPY", 100_000, "rows/s"), None),
    ],
)
def test_a_bar_is_met_at_its_limit_by_the_ratio_or_the_value(figure: Figure, met: bool | None) -> None:
    assert figure.met is met
    console = Console(width=200, record=True, file=Path("/dev/null").open("w"))  # noqa: SIM115 - closed with the test
    show(console, "a benchmark", [figure])
    assert ("MISSED" in console.export_text()) == (met is False)


def test_a_ratio_is_the_median_of_pairs_and_not_the_ratio_of_medians() -> None:
    # The machine was slow in the second round for both: the pairs agree, while the medians would give 4/5.
    figure = against("ours", [8.0, 1.0, 4.0], [10.0, 2.0, 5.0], "raw COPY")
    assert figure.ratio == pytest.approx(0.8)
    assert figure.value == 4.0


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([float(number) for number in range(100, 0, -1)], 95) == 95
    assert percentile([7.0], 95) == 7
