"""How the runs that a group worked through have ended, for people to read."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from workorders.core.runs.lifecycle import RunResult

MOST_NAMED: Final = 20
_WORDS: Final = 200


class Tally:
    """Counts by state, and the first of those that did not succeed."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self.retried = 0
        self.named: list[str] = []

    def add(self, results: Iterable[RunResult]) -> None:
        """Count results."""
        for result in results:
            self.states[result.state] += 1
            if result.state != "success" and len(self.named) < MOST_NAMED:
                words = " ".join((result.error or "").split())[:_WORDS]
                self.named.append(f"run {result.run_id} {result.state}: {result.error_type}: {words}")

    @property
    def total(self) -> int:
        """How many runs have ended."""
        return self.states.total()

    def __str__(self) -> str:
        """Return the counts as one clause."""
        counts = ", ".join(f"{count:,} {state}" for state, count in sorted(self.states.items()))
        again = f"; {self.retried:,} of them are tried again" if self.retried else ""
        return f"{counts or 'no runs'}{again}"
