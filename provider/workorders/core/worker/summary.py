"""How the runs of a worker ended, for its log."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from workorders.core.runs.lifecycle import RunResult

MAX_FAILURES: Final = 20
_MAX_ERROR_CHARS: Final = 200


class RunSummary:
    """Counts by state, and the first runs that did not succeed."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self.retried = 0
        self.failures: list[str] = []

    def add(self, results: Iterable[RunResult]) -> None:
        """Count results."""
        for result in results:
            self.states[result.state] += 1
            if result.state != "success" and len(self.failures) < MAX_FAILURES:
                words = " ".join((result.error or "").split())[:_MAX_ERROR_CHARS]
                self.failures.append(f"run {result.run_id} {result.state}: {result.error_type}: {words}")

    @property
    def total(self) -> int:
        """How many runs have ended."""
        return self.states.total()

    def __str__(self) -> str:
        """Return the counts as one clause."""
        counts = ", ".join(f"{count:,} {state}" for state, count in sorted(self.states.items()))
        again = f"; {self.retried:,} of them are retried" if self.retried else ""
        return f"{counts or 'no runs'}{again}"
