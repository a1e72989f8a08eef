"""What a run of faults gave: a table for people, and files for comparison."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from faults.oracle import Verdict
from local_stack.stack import CHECKOUT
from support import measured

FOLDER = CHECKOUT / "build" / "faults"
_TOLD = ("fault", "slug", "seed", "injected", "seconds_to_recover", "samples", "skipped", "failure")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one fault."""

    fault: str
    slug: str
    seed: int
    injected: int = 0
    seconds_to_recover: float = 0.0
    """From the end of the fault until everything that was sent had its work order and was committed."""
    samples: int = 0
    """Instants at which group, ledger and work orders were held against one another."""
    verdict: Verdict | None = None
    skipped: str = ""
    """Why the fault is not possible on this machine."""
    failure: str = ""
    """What went wrong before the oracle could speak."""

    @property
    def kept(self) -> bool:
        """Whether every promise was kept; also when there was nothing to see."""
        return bool(self.skipped) or (not self.failure and self.verdict is not None and self.verdict.kept)


def show(console: Console, results: Sequence[Result]) -> None:
    """Print the table."""
    table = Table(title="faults", title_justify="left", title_style="bold")
    for heading in ("fault", "injected", "messages", "lost", "duplicated", "order broken", "s to recover", ""):
        table.add_column(heading, justify="left" if heading in {"fault", ""} else "right")
    for result in results:
        table.add_row(result.fault, *_cells(result), _remark(result))
    console.print(table)


def _cells(result: Result) -> list[str]:
    verdict = result.verdict
    if verdict is None:
        return [str(result.injected), *["-"] * 5]
    counts = (result.injected, verdict.messages, verdict.lost, verdict.duplicated, verdict.disordered)
    return [*(f"{count:,}" for count in counts), f"{result.seconds_to_recover:.1f}"]


def _remark(result: Result) -> str:
    if result.skipped:
        return f"skipped: {result.skipped}"
    if result.failure:
        return f"FAILED: {result.failure.splitlines()[0]}"
    return "" if result.kept else f"BROKEN: {result.verdict}"


def markdown(results: Sequence[Result]) -> str:
    """Return the table in the form that documents take."""
    lines = [
        "| fault | injected | messages | lost | duplicated | order broken | s to recover | |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
        *(f"| {' | '.join([result.fault, *_cells(result), _remark(result)])} |" for result in results),
    ]
    return "\n".join(lines) + "\n"


def with_earlier(results: Sequence[Result], *, name: str, order: Sequence[str]) -> list[Result]:
    """Return the results with those that the last table of this name has of other faults, for a run in pieces.

    Args:
        results: of this run.
        name: of the table.
        order: the faults' slugs as the table shall have them; a fault that is not there any more is left out.
    """
    path = FOLDER / f"{name}.json"
    earlier = json.loads(path.read_text(encoding="utf-8"))["faults"] if path.exists() else []
    by_slug = {row["slug"]: _read(row) for row in earlier} | {result.slug: result for result in results}
    return [by_slug[slug] for slug in order if slug in by_slug]


def _read(row: Mapping[str, Any]) -> Result:
    verdict = row["verdict"]
    told = {name: row[name] for name in _TOLD}
    return Result(
        **told, verdict=verdict and Verdict(**{**verdict, "contradictions": tuple(verdict["contradictions"])})
    )


def write(results: Sequence[Result], *, name: str, seed: int) -> Path:
    """Write the results as JSON, next to the table for documents, and return the file's path."""
    path = measured.write(
        FOLDER / f"{name}.json",
        {"run": name, "seed": seed},
        faults=[asdict(result) | {"kept": result.kept} for result in results],
    )
    path.with_suffix(".md").write_text(markdown(results), encoding="utf-8")
    return path
