"""Several warm processes that work through jobs, and what becomes of each job."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import chain, count
from typing import Final

from workorders.core.worker.child import READY, RETURNED, SKIPPED, UNAVAILABLE
from workorders.core.worker.child_process import WarmProcess, ended_by, wait_for
from workorders.core.worker.exceptions import CallableUnavailableError, ExecutionError
from workorders.core.worker.ipc import Frame
from workorders.core.worker.lanes import Lanes
from workorders.core.worker.model import Job, Outcome, OutcomeState, Specification
from workorders.core.worker.outcomes import Mask, OutcomeMaker
from workorders.core.worker.pace import Pace, ahead, useful_processes

START_SECONDS: Final = 60.0
"""A process that has not imported its callable by then is given up."""
_MOST_STARTS: Final = 3
_LOOK_SECONDS: Final = 0.5
_LOOK_THROUGH: Final = 1_000
"""So many waiting jobs are looked through for one whose lane is free."""


class Pool:
    """Hands jobs to processes so that none waits, and keeps what happens to one job from the others.

    After a job that did not succeed the rest of its lane is held, until `resume` says how it goes on.

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
        self._waiting: deque[Job] = deque()
        self._lanes = Lanes()
        self._pace = Pace()
        self._processes: list[WarmProcess] = []
        self._failed_starts = 0
        self._bounded_at = 0.0
        self._gives_back = False

    def __enter__(self) -> "Pool":
        """Return itself; processes start with the first job."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill every process."""
        self.close()

    @property
    def unfinished(self) -> int:
        """How many jobs have no outcome yet."""
        return self._dispatchable + len(self._lanes)

    @property
    def pace(self) -> float | None:
        """About how many seconds a run lasts; None as long as nothing shows it."""
        return self._pace.seconds(max((process.at_work()[1] for process in self._processes), default=0.0))

    @property
    def appetite(self) -> int:
        """How many more jobs keep the processes busy for a moment: few long ones, many short ones."""
        pace = self.pace
        each = ahead(pace)
        wanted = each * useful_processes(pace, self._specification.processes)
        if each == 1:
            return max(wanted - self._dispatchable, 0)
        # Many at once and not a few now and then, for each time is a question to the database.
        return 0 if self._dispatchable > wanted else 2 * wanted - self._dispatchable

    @property
    def _dispatchable(self) -> int:
        return len(self._waiting) + self._in_hand

    @property
    def _in_hand(self) -> int:
        return sum(len(process.in_hand) for process in self._processes)

    def can_resume(self, lane: int) -> bool:
        """Whether no process has a job of the lane in its hands, and so everything left of it is known."""
        return not any(process.holds_lane(lane) for process in self._processes)

    def resume(self, lane: int, without: Collection[str] = ()) -> None:
        """Go on with a lane that was held after a job of it did not succeed, but without the runs of these ids."""
        self._waiting.extendleft(reversed(self._lanes.resume(lane)))
        if without:
            self._waiting = deque(job for job in self._waiting if job.run_id not in without)

    @property
    def pids(self) -> list[int]:
        """Process ids of the processes that live now."""
        return [process.pid for process in self._processes]

    def submit(self, jobs: Iterable[Job]) -> None:
        """Take more jobs."""
        self._waiting.extend(jobs)

    def run_ids(self) -> set[str]:
        """Return the ids of all runs that have no outcome yet."""
        in_hand = (job for process in self._processes for _, job in process.in_hand)
        return {job.run_id for job in chain(self._waiting, self._lanes, in_hand)}

    def at_work(self) -> list[Job]:
        """Return the jobs that processes have in hand right now."""
        found = []
        for process in self._processes:
            number, _ = process.at_work()
            found += [job for in_hand, job in process.in_hand if in_hand == number]
        return found

    def give_back(self) -> list[Job]:
        """Return the jobs that no process has begun, and begin no more; what is in hand goes on.

        Processes answer later, so it is to be called until nothing is unfinished.
        """
        self._gives_back = True
        left = list(self._waiting)
        self._waiting.clear()
        return left

    def stop(self) -> tuple[list[Outcome], list[Job]]:
        """Kill every process, and return the outcomes that were still on their way, and the jobs that none has begun.

        A job that was in hand is in neither: nobody knows how far it came.
        """
        outcomes: list[Outcome] = []
        left: list[Job] = []
        for process in self._processes:
            # Killed before it is asked: a process that lives would go on to the next job meanwhile.
            process.kill()
            with suppress(ExecutionError):
                outcomes.extend(self._received(process))
            number, _ = process.at_work()
            left += [job for in_hand, job in process.in_hand if in_hand != number]
        left += self._lanes.take_all()
        left += self._waiting
        self._waiting.clear()
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
        while True:
            outcomes = self._step()
            left = deadline - time.monotonic()
            if outcomes or left <= 0 or not self._in_hand:
                return outcomes
            wait_for(self._processes, min(left, self._until_time_out(), _LOOK_SECONDS))

    def _step(self) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for process in list(self._processes):
            # First what it has sent, then what became of it: what ended in time is neither killed nor crashed.
            outcomes += self._received(process)
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
            elif frame.header[0] == RETURNED:
                self._waiting.extendleft(reversed(process.given_back(frame.header[1])))
            elif frame.header[1] == SKIPPED:
                self._lanes.put(self._answered(process, frame))
            else:
                yield self._outcome(process, frame)

    def _outcome(self, process: WarmProcess, frame: Frame) -> Outcome:
        outcome = self._outcomes.returned(self._answered(process, frame), frame)
        self._pace.ended(max((outcome.finished_at - outcome.started_at).total_seconds(), 0.0))
        if outcome.state != "success":
            self._lanes.hold(outcome.job)
        return outcome

    @staticmethod
    def _answered(process: WarmProcess, frame: Frame) -> Job:
        expected, job = process.in_hand.popleft()
        if frame.header[0] != expected:
            raise ExecutionError(
                f"A process answered job {frame.header[0]} where {expected} was next; it is not trusted."
            )
        return job

    def _crashed(self, process: WarmProcess) -> list[Outcome]:
        exit_code = process.kill()
        # What it sent before it ended was still in the pipe when it was asked the first time.
        outcomes = list(self._received(process))
        error_type, error = ended_by(exit_code)
        if not process.ready or process.at_work()[0] is None:
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
        """Return the outcome of the job in hand, if any, and let the jobs behind it go to another process."""
        number, seconds = process.at_work()
        outcomes: list[Outcome] = []
        if process.in_hand and process.in_hand[0][0] == number:
            _, job = process.in_hand.popleft()
            self._lanes.hold(job)
            last_words = process.last_words()
            outcomes.append(self._outcomes.broken_off(job, state, (error_type, error), last_words, seconds=seconds))
        else:
            self._tell(process.last_words().text)
        self._waiting.extendleft(job for _, job in reversed(process.in_hand))
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
        if self._gives_back:
            for process in self._processes:
                # One that is still starting has begun none of them.
                if len(process.in_hand) > 1 or (process.in_hand and not process.ready):
                    process.ask_back()
                process.push()
            return
        pace = self.pace
        wanted = min(useful_processes(pace, self._specification.processes), self._dispatchable)
        while self._waiting and len(self._processes) < wanted:
            captured = self._specification.log_bytes + 2 * self._longest_secret
            self._processes.append(WarmProcess(self._specification, captured_bytes=captured))
        each = ahead(pace)
        for process in self._processes:
            while not process.gives_back and len(process.in_hand) < each:
                job = self._next_for(process)
                if job is None:
                    break
                process.hand_over(next(self._numbers), job, self._lanes.turn(job.lane))
            if len(process.in_hand) > 2 * each and self._specification.processes > 1:
                # It was given many short runs and has met a long one; others can do the rest meanwhile.
                process.ask_back()
            process.push()

    def _next_for(self, process: WarmProcess) -> Job | None:
        """Take the first waiting job that no lane keeps from this process: a lane is in one process at a time."""
        others = [other for other in self._processes if other is not process]
        place = 0
        while place < min(len(self._waiting), _LOOK_THROUGH):
            job = self._waiting[place]
            if self._lanes.put(job):
                del self._waiting[place]
            elif job.lane is None or not any(other.holds_lane(job.lane) for other in others):
                del self._waiting[place]
                return job
            else:
                place += 1
        return None

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
