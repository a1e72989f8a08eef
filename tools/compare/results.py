"""What became of each tool under each fault: JSON for later runs, and the table of the page."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from compare.oracle import Verdict
from compare.peer import FOLDER
from compare.speed import Speed
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


def read() -> tuple[dict[tuple[str, str], Result], dict[str, Speed]]:
    """Return what earlier runs have measured: by fault and tool, and by tool."""
    if not FILE.exists():
        return {}, {}
    found = json.loads(FILE.read_text(encoding="utf-8"))
    faults = {(row["fault"], row["peer"]): _result(row) for row in found["faults"]}
    return faults, {row["peer"]: Speed(**row) for row in found["speeds"]}


def _result(row: Mapping[str, Any]) -> Result:
    verdict = row["verdict"]
    return Result(**{**row, "verdict": verdict and Verdict(**verdict), "remedies": tuple(row["remedies"])})


def write(faults: Sequence[Result], speeds: Sequence[Speed], about: Mapping[str, Any]) -> Path:
    """Write what was measured as JSON."""
    return measured.write(FILE, about, faults=[*map(asdict, faults)], speeds=[*map(asdict, speeds)])
