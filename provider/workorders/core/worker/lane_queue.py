"""Claimed runs that have not begun, of which one a lane may begin at a time."""

from collections.abc import Collection, Iterable

from workorders.core.runs.claiming import ClaimedRun


class LaneQueue:
    """Runs in the order in which they were claimed, without those whose lane is at work.

    For runs that go on somewhere else, such as DAG runs. A pool of processes has `Lanes`: it hands several runs of a
    lane to one process at once.
    """

    def __init__(self) -> None:
        self._waiting: list[ClaimedRun] = []
        self._at_work: set[int] = set()

    def __len__(self) -> int:
        """Return how many runs have not begun."""
        return len(self._waiting)

    @property
    def ready(self) -> int:
        """How many runs may begin now."""
        return len(self._first_of_free_lanes(len(self._waiting)))

    def put(self, runs: Iterable[ClaimedRun]) -> None:
        """Take more runs, those of a lane in their order."""
        self._waiting.extend(runs)

    def take(self, most: int) -> list[ClaimedRun]:
        """Take runs that may begin; each one's lane is at work until it is freed."""
        taken = self._first_of_free_lanes(most)
        self._at_work |= {run.lane for run in taken if run.lane is not None}
        self.drop({run.run_id for run in taken})
        return taken

    def free(self, run: ClaimedRun) -> None:
        """Let the next run of the lane begin, for the end of this one is written down."""
        if run.lane is not None:
            self._at_work.discard(run.lane)

    def drop(self, ids: Collection[object]) -> None:
        """Forget runs: they are the group's no longer."""
        self._waiting = [run for run in self._waiting if run.run_id not in ids]

    def take_all(self) -> list[ClaimedRun]:
        """Take every run, to give it back."""
        left, self._waiting = self._waiting, []
        return left

    def _first_of_free_lanes(self, most: int) -> list[ClaimedRun]:
        seen = set(self._at_work)
        found: list[ClaimedRun] = []
        for run in self._waiting:
            if len(found) == most:
                break
            if run.lane is None:
                found.append(run)
            elif run.lane not in seen:
                seen.add(run.lane)
                found.append(run)
        return found
