"""What became of each tool under each fault: JSON for later runs, and the table of the page."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from compare.oracle import Verdict
from compare.peer import FOLDER
from support import measured

FILE: Final = FOLDER / "comparison.json"


@dataclass(frozen=True, slots=True)
class Result:
    """One tool under one fault."""

    peer: str
    fault: str
    verdict: Verdict | None = None
    halted: str = ""
    """How an operator learns that the tool does not continue, if it does not."""
    logged: bool = False
    restarts: int = 0
    remedies: tuple[str, ...] = ()
    seconds: float = 0.0
    skipped: str = ""
    """Why the fault does not apply."""
    failure: str = ""
    """What went wrong before there was a verdict."""
    second: str = ""
    """The cell of a second run, which what is wrong gets before it is shown."""

    @property
    def shown(self) -> str:
        """The cell, or those of two runs that differ."""
        return self.cell if self.second in {"", self.cell} else f"{self.cell} / {self.second}"

    @property
    def cell(self) -> str:
        """What became of the tool in this run."""
        if self.skipped:
            return "does not apply"
        if self.verdict is None:
            return "not measured"
        parts = [_silent(text, self) for text in _wrong(self.verdict, self)]
        if self.remedies:
            parts.append(f"after {', '.join(dict.fromkeys(self.remedies))}")
        return "; ".join(parts) or "0"


def _wrong(verdict: Verdict, result: Result) -> Iterable[str]:
    if verdict.lost and result.halted:
        yield f"stopped, {verdict.lost:,} wait"
    elif verdict.lost:
        yield f"**{verdict.lost:,} lost**"
    if verdict.failed:
        yield f"{verdict.failed:,} failed, kept"
    if verdict.doubled:
        yield f"**{verdict.doubled:,} doubled**"
    if verdict.strays:
        yield f"**{verdict.strays:,} aborted**"
    if verdict.overtaken:
        yield f"{verdict.overtaken:,} overtaken"
    if verdict.bad_kept < verdict.bad:
        yield f"{verdict.bad - verdict.bad_kept:,} of {verdict.bad:,} bad gone"


def _silent(text: str, result: Result) -> str:
    return text if result.logged or result.halted or not text.startswith("**") else f"{text}, silently"


def read() -> dict[tuple[str, str], Result]:
    """Return the results of earlier runs."""
    if not FILE.exists():
        return {}
    rows = json.loads(FILE.read_text(encoding="utf-8"))["results"]
    return {(row["peer"], row["fault"]): _result(row) for row in rows}


def _result(row: Mapping[str, Any]) -> Result:
    verdict = row["verdict"]
    return Result(**{**row, "verdict": verdict and Verdict(**verdict), "remedies": tuple(row["remedies"])})


def write(results: Sequence[Result], about: Mapping[str, Any]) -> Path:
    """Write the results as JSON."""
    return measured.write(FILE, about, results=[asdict(result) for result in results])
