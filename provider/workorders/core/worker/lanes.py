"""Runs that wait to begin, of which one a lane may be at work at a time."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Generic, Protocol, TypeVar


class _Waiting(Protocol):
    @property
    def run_id(self) -> object:
        """The run."""

    @property
    def lane(self) -> int | None:
        """Its lane."""


Run = TypeVar("Run", bound=_Waiting)


class LaneQueue(Generic[Run]):
    """Runs in the order in which they came; the next one of a lane is ready when the one before it has freed the lane.

    No operation but `drop` and `take_all` looks at every run: thousands of runs pass through in a second.
    """

    def __init__(self) -> None:
        self._ready: deque[Run] = deque()
        #: What waits behind the run of each lane that is ready or at work.
        self._behind: dict[int, deque[Run]] = {}
        self._length = 0

    def __len__(self) -> int:
        """Return how many runs have not begun."""
        return self._length

    @property
    def ready(self) -> int:
        """How many runs may begin now."""
        return len(self._ready)

    def __iter__(self) -> Iterator[Run]:
        """Yield every run that has not begun; those of a lane in their order."""
        return chain(self._ready, *self._behind.values())

    def put(self, runs: Iterable[Run]) -> None:
        """Take more runs, those of a lane in their order."""
        for run in runs:
            self._length += 1
            if run.lane is None:
                self._ready.append(run)
            elif run.lane in self._behind:
                self._behind[run.lane].append(run)
            else:
                self._behind[run.lane] = deque()
                self._ready.append(run)

    def put_back(self, run: Run) -> None:
        """Take a run that was taken and has not begun, to be the next one."""
        self._length += 1
        self._ready.appendleft(run)

    def take(self, most: int) -> list[Run]:
        """Take runs that may begin; each one's lane is at work until it is freed."""
        taken = [self._ready.popleft() for _ in range(min(most, len(self._ready)))]
        self._length -= len(taken)
        return taken

    def free(self, lane: int | None) -> None:
        """Let the next run of a lane begin."""
        if lane is None:
            return
        if self._behind[lane]:
            self._ready.append(self._behind[lane].popleft())
        else:
            del self._behind[lane]

    def drop(self, ids: Collection[object]) -> None:
        """Forget runs: they are the group's no longer."""
        if ids:
            self.put([run for run in self.take_all() if run.run_id not in ids])

    def take_all(self) -> list[Run]:
        """Take every run, to give it back."""
        left = list(self)
        for run in self._ready:
            if run.lane is not None:
                del self._behind[run.lane]
        for behind in self._behind.values():
            behind.clear()
        self._ready.clear()
        self._length = 0
        return left
