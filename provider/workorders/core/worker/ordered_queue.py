"""Runs that wait to begin; of those with the same ordering key, one may be in progress at a time."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from workorders.core.runs.claiming import ClaimedRun


class OrderedQueue:
    """Runs in the order in which they came, and for each ordering key in use the runs that wait for it.

    Only `remove` looks at every run, because thousands of runs pass through per second.
    """

    def __init__(self) -> None:
        self._ready: deque[ClaimedRun] = deque()
        #: For each ordering key with a run that is ready or in progress, the runs after it.
        self._waiting: dict[int, deque[ClaimedRun]] = {}
        self._length = 0

    def __len__(self) -> int:
        """Return how many runs have not begun."""
        return self._length

    @property
    def ready(self) -> int:
        """How many runs may begin now."""
        return len(self._ready)

    def __iter__(self) -> Iterator[ClaimedRun]:
        """Yield every run that has not begun; those with the same ordering key in their order."""
        return chain(self._ready, *self._waiting.values())

    def put(self, runs: Iterable[ClaimedRun]) -> None:
        """Add runs; those with the same ordering key in their order."""
        for run in runs:
            self._length += 1
            if run.ordering_key is None:
                self._ready.append(run)
            elif run.ordering_key in self._waiting:
                self._waiting[run.ordering_key].append(run)
            else:
                self._waiting[run.ordering_key] = deque()
                self._ready.append(run)

    def put_back(self, run: ClaimedRun) -> None:
        """Return a run that was taken and has not begun; it is the next one."""
        self._length += 1
        self._ready.appendleft(run)

    def take(self) -> ClaimedRun:
        """Take a run that may begin; its ordering key is in use until it is freed."""
        self._length -= 1
        return self._ready.popleft()

    def free(self, ordering_key: int | None) -> None:
        """Let the next run with an ordering key begin."""
        if ordering_key is None:
            return
        if self._waiting[ordering_key]:
            self._ready.append(self._waiting[ordering_key].popleft())
        else:
            del self._waiting[ordering_key]

    def remove(self, matches: Callable[[ClaimedRun], bool] = lambda _: True) -> list[ClaimedRun]:
        """Remove and return the runs that have not begun and match; without a condition, all."""
        runs = list(self)
        for run in self._ready:
            if run.ordering_key is not None:
                del self._waiting[run.ordering_key]
        for waiting in self._waiting.values():
            waiting.clear()
        self._ready.clear()
        self._length = 0
        self.put(run for run in runs if not matches(run))
        return [run for run in runs if matches(run)]
