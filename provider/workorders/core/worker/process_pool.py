"""Several warm processes that work through jobs, and what becomes of each job."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import chain, count
from typing import Final

from workorders.core.worker.child import READY, UNAVAILABLE
from workorders.core.worker.child_process import WarmProcess, ended_by, wait_for
from workorders.core.worker.exceptions import CallableUnavailableError, ExecutionError
from workorders.core.worker.ipc import Frame
from workorders.core.worker.lanes import LaneQueue
from workorders.core.worker.model import Job, Outcome, OutcomeState, Specification
from workorders.core.worker.outcomes import Mask, OutcomeMaker

START_SECONDS: Final = 60.0
"""A process that has not imported its callable by then is given up."""
_MOST_STARTS: Final = 3
_LOOK_SECONDS: Final = 0.5
_GATHER_SECONDS: Final = 0.01
"""Outcomes that come within this time are returned together."""
_AHEAD_SECONDS: Final = 0.05
"""Work that the pool should have waiting, so that no process waits for the database."""
_MOST_AHEAD: Final = 256
_SHORT_SECONDS: Final = 0.002
"""Shorter runs are done sooner than a second process is fed."""
_NEWEST_SHARE: Final = 0.1


class Pool:
    """Hands each process one job at a time, and keeps what happens to one job from the others.

    Of a lane one job is in a process at a time. After one that did not succeed the lane is held until `resume`.

    Args:
        specification: what to run, and within which limits.
        mask: takes the known secrets out of a log or an error.
        longest_secret: length of the longest of them in bytes; so much more of a log is read than is kept, so that none
            is cut in two at the end, where it would not be known.
        say: is told what processes write outside of any run.
    """

    def __init__(
        self,
        specification: Specification,
        *,
        mask: Mask = str,
        longest_secret: int = 0,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._specification = specification
        self._mask = mask
        self._longest_secret = longest_secret
        self._outcomes = OutcomeMaker(specification.log_bytes, mask, longest_secret)
        self._say = say
        self._numbers = count()
        self._queue: LaneQueue[Job] = LaneQueue()
        self._mean_seconds: float | None = None
        self._processes: list[WarmProcess] = []
        self._failed_starts = 0
        self._bounded_at = 0.0

    def __enter__(self) -> "Pool":
        """Return itself; processes start with the first job."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill every process."""
        self.close()

    @property
    def unfinished(self) -> int:
        """How many jobs have no outcome yet."""
        return len(self._queue) + self._in_hand

    @property
    def pace(self) -> float | None:
        """About how many seconds a run lasts; None as long as nothing shows it.

        The mean of the last runs; one that lasts longer than that already counts as well.
        """
        longest_at_work = max((process.at_work()[1] for process in self._processes), default=0.0)
        return max(self._mean_seconds or 0.0, longest_at_work) or None

    @property
    def appetite(self) -> int:
        """How many more jobs keep the processes busy for a moment: few long ones, many short ones."""
        pace = self.pace
        ahead = 1 if pace is None else max(1, min(_MOST_AHEAD, int(_AHEAD_SECONDS / pace)))
        wanted = ahead * self._useful_processes
        if ahead == 1:
            return max(wanted - self.unfinished, 0)
        # Many at once and not a few now and then, for each time is a question to the database.
        return 0 if self.unfinished > wanted else 2 * wanted - self.unfinished

    @property
    def _useful_processes(self) -> int:
        pace = self.pace
        return self._specification.processes if pace is not None and pace >= _SHORT_SECONDS else 1

    @property
    def _in_hand(self) -> int:
        return sum(process.in_hand is not None for process in self._processes)

    @property
    def pids(self) -> list[int]:
        """Process ids of the processes that live now."""
        return [process.pid for process in self._processes]

    def submit(self, jobs: Iterable[Job]) -> None:
        """Take more jobs."""
        self._queue.put(jobs)

    def drop(self, run_ids: Collection[str]) -> None:
        """Forget jobs that have not begun."""
        self._queue.drop(run_ids)

    def resume(self, lane: int) -> None:
        """Go on with a lane that was held after a job of it did not succeed."""
        self._queue.free(lane)

    def run_ids(self) -> set[str]:
        """Return the ids of all runs that have no outcome yet."""
        in_hand = (process.in_hand[1] for process in self._processes if process.in_hand)
        return {job.run_id for job in chain(self._queue, in_hand)}

    def at_work(self) -> list[Job]:
        """Return the jobs that processes have begun and not ended."""
        return [process.in_hand[1] for process in self._processes if process.in_hand and process.has_begun]

    def give_back(self) -> list[Job]:
        """Return the jobs that are in no process."""
        return self._queue.take_all()

    def stop(self) -> tuple[list[Outcome], list[Job]]:
        """Kill every process, and return the outcomes that were still on their way, and the jobs that none has begun.

        A job that was at work is in neither: nobody knows how far it came.
        """
        outcomes: list[Outcome] = []
        left: list[Job] = []
        for process in self._processes:
            # Killed before it is asked: a process that lives would begin what it was handed meanwhile.
            process.kill()
            with suppress(ExecutionError):
                outcomes.extend(self._received(process))
            if process.in_hand and not process.has_begun:
                left.append(process.in_hand[1])
        left += self._queue.take_all()
        self.close()
        return outcomes, left

    def close(self) -> None:
        """Kill every process; jobs in hand have no outcome."""
        while self._processes:
            self._processes.pop().close()

    def poll(self, seconds: float) -> list[Outcome]:
        """Return what has ended since the last call; wait for at most so many seconds if nothing has.

        Raises:
            CallableUnavailableError: the callable cannot be imported.
            ExecutionError: processes cannot be started.
        """
        deadline = time.monotonic() + seconds
        outcomes: list[Outcome] = []
        while True:
            found = self._step()
            now = time.monotonic()
            if found and not outcomes:
                deadline = min(deadline, now + _GATHER_SECONDS)
            outcomes += found
            starting = self._queue.ready and self._processes
            if now >= deadline or (outcomes and not len(self._queue)) or not (self._in_hand or starting):
                return outcomes
            wait_for(self._processes, min(deadline - now, self._until_time_out(), _LOOK_SECONDS))

    def _step(self) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for process in list(self._processes):
            # First what it has sent, then what became of it: what ended in time is neither killed nor crashed.
            received = list(self._received(process))
            outcomes += received
            if received:
                continue
            if process.ended:
                outcomes += self._crashed(process)
            elif process.seconds_left(self._specification.timeout_seconds, START_SECONDS) < 0:
                outcomes += self._killed(process)
        self._bound_logs()
        self._dispatch()
        return outcomes

    def _received(self, process: WarmProcess) -> Iterator[Outcome]:
        for frame in process.receive():
            if frame.header[0] == READY:
                process.ready = True
                self._failed_starts = 0
                self._tell(frame.header[2])
            elif frame.header[0] == UNAVAILABLE:
                self._tell(frame.header[2])
                raise CallableUnavailableError(self._mask(frame.header[1]))
            else:
                yield self._outcome(process, frame)

    def _outcome(self, process: WarmProcess, frame: Frame) -> Outcome:
        if process.in_hand is None or frame.header[0] != process.in_hand[0]:
            raise ExecutionError(
                f"A process answered job {frame.header[0]}, which it does not hold; it is not trusted."
            )
        outcome = self._outcomes.returned(process.in_hand[1], frame)
        process.in_hand = None
        seconds = max((outcome.finished_at - outcome.started_at).total_seconds(), 0.0)
        mean = self._mean_seconds
        self._mean_seconds = seconds if mean is None else mean + _NEWEST_SHARE * (seconds - mean)
        if outcome.state == "success":
            self._queue.free(outcome.job.lane)
        return outcome

    def _crashed(self, process: WarmProcess) -> list[Outcome]:
        exit_code = process.kill()
        # What it sent before it ended was still in the pipe when it was asked the first time.
        outcomes = list(self._received(process))
        error_type, error = ended_by(exit_code)
        if not process.has_begun:
            self._count_failed_start(process, error)
        return [*outcomes, *self._ended(process, "crashed", error_type, error)]

    def _killed(self, process: WarmProcess) -> list[Outcome]:
        process.kill()
        outcomes = list(self._received(process))
        limit = self._specification.timeout_seconds
        error = f"The run lasted longer than timeout_seconds ({limit:g}), and its process was killed."
        if not process.ready:
            self._count_failed_start(process, f"Importing the callable lasted longer than {START_SECONDS:g} s.")
        return [*outcomes, *self._ended(process, "killed", "TimeoutError", error)]

    def _ended(self, process: WarmProcess, state: OutcomeState, error_type: str, error: str) -> list[Outcome]:
        """Return the outcome of the job that the process had begun; one that it had not begun is for another."""
        _, seconds = process.at_work()
        outcomes: list[Outcome] = []
        if process.in_hand and process.has_begun:
            last_words = process.last_words()
            job = process.in_hand[1]
            outcomes.append(self._outcomes.broken_off(job, state, (error_type, error), last_words, seconds=seconds))
        else:
            self._tell(process.last_words().text)
            if process.in_hand:
                self._queue.put_back(process.in_hand[1])
        self._processes.remove(process)
        process.close()
        return outcomes

    def _count_failed_start(self, process: WarmProcess, reason: str) -> None:
        self._failed_starts += 1
        if self._failed_starts < _MOST_STARTS:
            return
        words = self._mask(process.last_words().text).strip().splitlines()
        last = f" Its last words: {words[-1]}" if words else ""
        raise ExecutionError(
            f"The process for {self._specification.callable} ended {_MOST_STARTS} times outside of any run. "
            f"{reason}{last}"
        )

    def _dispatch(self) -> None:
        wanted = min(self._useful_processes, self._queue.ready + self._in_hand)
        while len(self._processes) < wanted:
            captured = self._specification.log_bytes + 2 * self._longest_secret
            self._processes.append(WarmProcess(self._specification, captured_bytes=captured))
        for process in self._processes:
            process.push()
            if process.is_free:
                for job in self._queue.take(1):
                    process.hand_over(next(self._numbers), job)

    def _until_time_out(self) -> float:
        limit = self._specification.timeout_seconds
        return max(min(process.seconds_left(limit, START_SECONDS) for process in self._processes), 0.001)

    def _bound_logs(self) -> None:
        now = time.monotonic()
        if now - self._bounded_at >= _LOOK_SECONDS:
            self._bounded_at = now
            for process in self._processes:
                process.bound_log()

    def _tell(self, text: str) -> None:
        if text:
            self._say(self._mask(text.rstrip()))
