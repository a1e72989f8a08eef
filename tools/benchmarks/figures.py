"""What a benchmark measured: figures, the bars they are held against, and how both are shown and written down."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from support import measured

FOLDER = Path(__file__).resolve().parents[2] / "build" / "bench"


@dataclass(frozen=True, slots=True)
class Bar:
    """A limit for a figure's ratio, or for its value where it has no ratio."""

    limit: float
    at_most: bool = False

    def met_by(self, measured: float) -> bool:
        return measured <= self.limit if self.at_most else measured >= self.limit

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number."""

    name: str
    value: float
    unit: str
    runs: tuple[float, ...] = ()
    """The single measurements that `value` is the median of."""
    ratio: float | None = None
    """The value, over that of `ratio_to`; the median of pairs where both were measured in turns."""
    ratio_to: str | None = None
    ratios: tuple[float, ...] = ()
    """The ratios of the single pairs: far apart, they show that the machine had other work."""
    bar: Bar | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None without a bar."""
        if self.bar is None:
            return None
        return self.bar.met_by(self.value if self.ratio is None else self.ratio)


def middle(name: str, runs: Sequence[float], unit: str, *, note: str = "") -> Figure:
    """Return the median of several measurements as a figure."""
    return Figure(name, median(runs), unit, tuple(runs), note=note)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value that `percent` percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def show(console: Console, benchmark: str, figures: Sequence[Figure]) -> None:
    """Print the figures of one benchmark as a table."""
    table = Table(title=benchmark, title_justify="left", title_style="bold")
    for heading in ("figure", "value", "unit", "ratio", "to", "bar", "", "note"):
        table.add_column(heading, justify="right" if heading in {"value", "ratio"} else "left", no_wrap=True)
    for figure in figures:
        table.add_row(
            figure.name,
            _number(figure.value),
            figure.unit,
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            figure.ratio_to or "",
            "" if figure.bar is None else str(figure.bar),
            {None: "", True: "met", False: "MISSED"}[figure.met],
            figure.note,
        )
    console.print(table)


def write(benchmark: str, figures: Sequence[Figure], *, quick: bool) -> Path:
    """Write the figures of one benchmark as JSON, and return its path; quick ones next to those of whole runs."""
    return measured.write(
        FOLDER / f"{benchmark}{'.quick' if quick else ''}.json",
        {"benchmark": benchmark, "quick": quick},
        figures=[asdict(figure) | {"met": figure.met} for figure in figures],
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"
