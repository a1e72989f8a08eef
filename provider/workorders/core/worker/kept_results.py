"""Results that cannot be stored yet, because another transaction has written to a key to which their runs publish."""

import time
from collections.abc import Collection, Hashable, Iterable
from typing import Final
from uuid import UUID

from workorders.core.runs.lifecycle import RunResult

RETRY_SECONDS: Final = 1.0
"""Time until results that are kept back are tried again."""


class KeptResults:
    """Results in the order in which they must be stored.

    Within an ordering key, and within a key of a topic, no result passes one that is kept back.
    """

    def __init__(self) -> None:
        self.results: list[RunResult] = []
        self._reserved: set[Hashable] = set()
        self._due_at = 0.0

    @property
    def is_due(self) -> bool:
        """Whether there are results, and it is time to try them again."""
        return len(self.results) > 0 and time.monotonic() >= self._due_at

    def take(self) -> list[RunResult]:
        """Remove and return all results."""
        taken, self.results = self.results, []
        self._reserved.clear()
        return taken

    def keep(self, results: Iterable[RunResult], busy: Collection[UUID] = ()) -> list[RunResult]:
        """Keep back the results of busy runs and those that must not pass one that is kept; return the others."""
        if not self.results and not busy:
            return list(results)
        others = []
        for result in results:
            order = _order_of(result)
            if result.run_id not in busy and self._reserved.isdisjoint(order):
                others.append(result)
                continue
            if not self.results:
                self._due_at = time.monotonic() + RETRY_SECONDS
            self.results.append(result)
            self._reserved |= order
        return others


def _order_of(result: RunResult) -> set[Hashable]:
    keys: set[Hashable] = {(message.to, message.key) for message in result.messages if message.key is not None}
    return keys if result.ordering_key is None else keys | {result.ordering_key}
