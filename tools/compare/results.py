"""What became of each tool under each fault: JSON for later runs, and the table of the page."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from compare.cases import FAULTS
from compare.oracle import Verdict
from compare.peer import HERE
from compare.speed import Speed
from support import measured

FILE: Final = HERE / "results.json"


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
    """Of both runs."""
    skipped: str = ""
    """Why the fault does not apply."""
    second: str = ""
    """The cell of a second run, which what is lost gets before it is shown."""

    @property
    def shown(self) -> str:
        """The cell, or those of two runs that differ."""
        return self.cell if self.second in {"", self.cell} else f"{self.cell} / {self.second}"

    @property
    def cell(self) -> str:
        """What became of the tool in this run."""
        if self.verdict is None:
            return "does not apply"
        parts = list(_wrong(self.verdict, self)) or ["0"]
        if not self.is_seen and (self.is_damaged or FAULTS[self.fault].must_be_seen):
            parts.append("silently")
        if self.remedies:
            parts.append(f"after {', '.join(dict.fromkeys(self.remedies))}")
        return ", ".join(parts)

    @property
    def is_seen(self) -> bool:
        """Whether an operator learns that something is wrong."""
        return bool(self.logged or self.halted or self.remedies)

    @property
    def is_damaged(self) -> bool:
        """Whether something is wrong; the order alone follows from how the tool works."""
        return self.verdict is not None and not replace(self.verdict, overtaken=0).is_clean

    @property
    def is_doubted(self) -> bool:
        """Whether it is measured twice: messages are gone. What has stopped, or is kept for a person, has lost none."""
        found = self.verdict
        return found is not None and not self.halted and bool(found.lost or found.bad_kept < found.bad)


def _wrong(verdict: Verdict, result: Result) -> Iterable[str]:
    if verdict.lost and result.halted:
        yield "stopped"
    elif verdict.lost:
        yield f"**{verdict.lost:,} lost**"
    if verdict.failed:
        yield f"{verdict.failed:,} failed, kept"
    if verdict.doubled:
        yield f"**{verdict.doubled:,} doubled**"
    if verdict.strays:
        yield f"**{verdict.strays:,} aborted**"
    if verdict.overtaken and not verdict.lost:  # a row that another message has overwritten is in its place
        yield "overtaken"
    if verdict.bad_kept < verdict.bad and not result.halted:
        yield f"{verdict.bad - verdict.bad_kept:,} of {verdict.bad:,} bad gone"


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
