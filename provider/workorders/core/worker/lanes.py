"""Lanes whose jobs are held, since one of them did not succeed and may be tried again before the rest."""

from collections.abc import Iterator
from itertools import chain

from workorders.core.worker.model import Job


class Lanes:
    """What is held of each lane, in order, and how often a lane was resumed."""

    def __init__(self) -> None:
        self._held: dict[int, list[Job]] = {}
        self._turns: dict[int, int] = {}

    def __len__(self) -> int:
        """Return how many jobs are held."""
        return sum(map(len, self._held.values()))

    def __iter__(self) -> Iterator[Job]:
        """Yield every job that is held."""
        return chain.from_iterable(self._held.values())

    def hold(self, job: Job) -> None:
        """Hold the lane of a job from here on; the job itself is done with."""
        if job.lane is not None:
            self._held.setdefault(job.lane, [])

    def put(self, job: Job) -> bool:
        """Take a job if its lane is held, and return whether that is so."""
        if job.lane is None or job.lane not in self._held:
            return False
        self._held[job.lane].append(job)
        return True

    def resume(self, lane: int) -> list[Job]:
        """Hold the lane no longer, and return what was held of it."""
        self._turns[lane] = self.turn(lane) + 1
        return self._held.pop(lane, [])

    def turn(self, lane: int | None) -> int:
        """Return how often a lane was resumed; a process that skips a lane skips the jobs of one turn."""
        return 0 if lane is None else self._turns.get(lane, 0)

    def take_all(self) -> list[Job]:
        """Return all that is held, and hold nothing."""
        left = list(self)
        self._held.clear()
        return left
