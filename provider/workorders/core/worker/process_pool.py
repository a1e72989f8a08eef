"""A pool of warm child processes that execute invocations."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import chain, count
from typing import Final

from workorders.core.worker.child import READY, UNAVAILABLE
from workorders.core.worker.child_handle import ChildProcess, ended_by, wait_for
from workorders.core.worker.conversions import ResultMaker
from workorders.core.worker.exceptions import CallableUnavailableError, ExecutionError
from workorders.core.worker.ipc import Frame
from workorders.core.worker.model import Invocation, InvocationResult, ResultState, Specification
from workorders.core.worker.ordered_queue import OrderedQueue
from workorders.core.worker.secret_masking import MaskText

START_SECONDS: Final = 60.0
"""A process that has not imported its callable by then is killed."""
_MAX_STARTS: Final = 3
_CHECK_SECONDS: Final = 0.5
_GATHER_SECONDS: Final = 0.01
"""Results that arrive within this time are returned together."""
_AHEAD_SECONDS: Final = 0.05
"""How much work the pool holds ready, so that no process waits for the database."""
_MAX_AHEAD: Final = 256
_SHORT_SECONDS: Final = 0.002
"""Shorter runs share one process: that is faster than feeding a second one."""
_NEWEST_SHARE: Final = 0.1


class ProcessPool:
    """Gives each process one invocation at a time, so that a failure affects no other invocation.

    Of invocations with the same ordering key, one is in a process at a time. After one that did not succeed, the others
    are held until `resume`.

    Args:
        specification: what to run, and its limits.
        mask: replaces known secrets in a log or an error.
        max_secret_bytes: length of the longest of them in bytes. That much more of a log is read than is kept, because
            the mask does not recognize a secret that was cut.
        log: receives what processes write outside of any run.
    """

    def __init__(
        self,
        specification: Specification,
        *,
        mask: MaskText = str,
        max_secret_bytes: int = 0,
        log: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._specification = specification
        self._mask = mask
        self._longest_secret = max_secret_bytes
        self._result_maker = ResultMaker(specification.log_bytes, mask, max_secret_bytes)
        self._log = log
        self._numbers = count()
        self._queue: OrderedQueue[Invocation] = OrderedQueue()
        self._mean_seconds: float | None = None
        self._processes: list[ChildProcess] = []
        self._failed_starts = 0
        self._bounded_at = 0.0

    def __enter__(self) -> "ProcessPool":
        """Return the pool; processes start with the first invocation."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill every process."""
        self.close()

    @property
    def unfinished(self) -> int:
        """How many invocations have no result yet."""
        return len(self._queue) + self._in_flight

    @property
    def pace(self) -> float | None:
        """About how many seconds a run lasts: the mean of the last runs, or more if one at work already lasts longer.

        None while that is unknown.
        """
        longest_at_work = max((process.current()[1] for process in self._processes), default=0.0)
        return max(self._mean_seconds or 0.0, longest_at_work) or None

    @property
    def free_capacity(self) -> int:
        """How many more invocations keep the processes busy for a moment: few long ones, or many short ones."""
        pace = self.pace
        ahead = 1 if pace is None else max(1, min(_MAX_AHEAD, int(_AHEAD_SECONDS / pace)))
        wanted = ahead * self._useful_processes
        if ahead == 1:
            return max(wanted - self.unfinished, 0)
        # Many at once, because each call costs the caller a transaction.
        return 0 if self.unfinished > wanted else 2 * wanted - self.unfinished

    @property
    def _useful_processes(self) -> int:
        pace = self.pace
        return self._specification.processes if pace is not None and pace >= _SHORT_SECONDS else 1

    @property
    def _in_flight(self) -> int:
        return sum(process.in_flight is not None for process in self._processes)

    @property
    def pids(self) -> list[int]:
        """Ids of the processes that are alive."""
        return [process.pid for process in self._processes]

    def submit(self, invocations: Iterable[Invocation]) -> None:
        """Add invocations."""
        self._queue.put(invocations)

    def drop(self, run_ids: Collection[str]) -> None:
        """Remove invocations that have not begun."""
        self._queue.drop(run_ids)

    def resume(self, ordering_key: int) -> None:
        """Continue with an ordering key that was held after a failure."""
        self._queue.free(ordering_key)

    def run_ids(self) -> set[str]:
        """Return the ids of all runs that have no result yet."""
        in_flight = (process.in_flight[1] for process in self._processes if process.in_flight)
        return {invocation.run_id for invocation in chain(self._queue, in_flight)}

    def running(self) -> list[Invocation]:
        """Return the invocations that processes have begun and not ended."""
        return [process.in_flight[1] for process in self._processes if process.in_flight and process.has_begun]

    def return_unstarted(self) -> list[Invocation]:
        """Remove and return the invocations that are in no process."""
        return self._queue.take_all()

    def stop(self) -> tuple[list[InvocationResult], list[Invocation]]:
        """Kill every process, and return the results that were on their way and the invocations that had not begun.

        An invocation that was at work is in neither, because how far it came is unknown.
        """
        results: list[InvocationResult] = []
        left: list[Invocation] = []
        for process in self._processes:
            # Kill first: a live process could begin its invocation in the meantime.
            process.kill()
            with suppress(ExecutionError):
                results.extend(self._received(process))
            if process.in_flight and not process.has_begun:
                left.append(process.in_flight[1])
        left += self._queue.take_all()
        self.close()
        return results, left

    def close(self) -> None:
        """Kill every process; invocations in flight have no result."""
        while self._processes:
            self._processes.pop().close()

    def poll(self, seconds: float) -> list[InvocationResult]:
        """Return the results since the last call; wait for a limited number of seconds if there are none.

        Raises:
            CallableUnavailableError: the callable cannot be imported.
            ExecutionError: processes cannot be started.
        """
        deadline = time.monotonic() + seconds
        results: list[InvocationResult] = []
        while True:
            found = self._step()
            now = time.monotonic()
            if found and not results:
                deadline = min(deadline, now + _GATHER_SECONDS)
            results += found
            starting = self._queue.ready and self._processes
            if now >= deadline or (results and not len(self._queue)) or not (self._in_flight or starting):
                return results
            wait_for(self._processes, min(deadline - now, self._until_time_out(), _CHECK_SECONDS))

    def _step(self) -> list[InvocationResult]:
        results: list[InvocationResult] = []
        for process in list(self._processes):
            # Read first: an invocation whose result has arrived was neither killed nor crashed.
            received = list(self._received(process))
            results += received
            if received:
                continue
            if process.ended:
                results += self._crashed(process)
            elif process.seconds_left(self._specification.timeout_seconds, START_SECONDS) < 0:
                results += self._killed(process)
        self._bound_logs()
        self._dispatch()
        return results

    def _received(self, process: ChildProcess) -> Iterator[InvocationResult]:
        for frame in process.receive():
            if frame.header[0] == READY:
                process.ready = True
                self._failed_starts = 0
                self._log_output(frame.header[2])
            elif frame.header[0] == UNAVAILABLE:
                self._log_output(frame.header[2])
                raise CallableUnavailableError(self._mask(frame.header[1]))
            else:
                yield self._result(process, frame)

    def _result(self, process: ChildProcess, frame: Frame) -> InvocationResult:
        if process.in_flight is None or frame.header[0] != process.in_flight[0]:
            raise ExecutionError(
                f"A process sent a result for run {frame.header[0]}, which it does not have. Its run was not finished."
            )
        result = self._result_maker.returned(process.in_flight[1], frame)
        process.in_flight = None
        seconds = max((result.finished_at - result.started_at).total_seconds(), 0.0)
        mean = self._mean_seconds
        self._mean_seconds = seconds if mean is None else mean + _NEWEST_SHARE * (seconds - mean)
        if result.state == "success":
            self._queue.free(result.invocation.ordering_key)
        return result

    def _crashed(self, process: ChildProcess) -> list[InvocationResult]:
        exit_code = process.kill()
        # Its last frames may have arrived after the first read.
        results = list(self._received(process))
        error_type, error = ended_by(exit_code)
        if not process.has_begun:
            self._count_failed_start(process, error)
        return [*results, *self._ended(process, "crashed", error_type, error)]

    def _killed(self, process: ChildProcess) -> list[InvocationResult]:
        process.kill()
        results = list(self._received(process))
        limit = self._specification.timeout_seconds
        error = f"The run lasted longer than timeout_seconds ({limit:g}), and its process was killed."
        if not process.ready:
            self._count_failed_start(process, f"Importing the callable lasted longer than {START_SECONDS:g} s.")
        return [*results, *self._ended(process, "killed", "TimeoutError", error)]

    def _ended(self, process: ChildProcess, state: ResultState, error_type: str, error: str) -> list[InvocationResult]:
        """Return the result of the invocation that the process had begun; one that it had not begun goes back."""
        _, seconds = process.current()
        results: list[InvocationResult] = []
        if process.in_flight and process.has_begun:
            captured_output = process.captured_output()
            invocation = process.in_flight[1]
            results.append(
                self._result_maker.interrupted(invocation, state, (error_type, error), captured_output, seconds=seconds)
            )
        else:
            self._log_output(process.captured_output().text)
            if process.in_flight:
                self._queue.put_back(process.in_flight[1])
        self._processes.remove(process)
        process.close()
        return results

    def _count_failed_start(self, process: ChildProcess, reason: str) -> None:
        self._failed_starts += 1
        if self._failed_starts < _MAX_STARTS:
            return
        words = self._mask(process.captured_output().text).strip().splitlines()
        last = f" Its last output: {words[-1]}" if words else ""
        raise ExecutionError(
            f"The process for {self._specification.callable} ended {_MAX_STARTS} times outside of any run. "
            f"{reason}{last}"
        )

    def _dispatch(self) -> None:
        wanted = min(self._useful_processes, self._queue.ready + self._in_flight)
        while len(self._processes) < wanted:
            captured = self._specification.log_bytes + 2 * self._longest_secret
            self._processes.append(ChildProcess(self._specification, captured_bytes=captured))
        for process in self._processes:
            process.push()
            if process.is_free:
                for invocation in self._queue.take(1):
                    process.send(next(self._numbers), invocation)

    def _until_time_out(self) -> float:
        limit = self._specification.timeout_seconds
        return max(min(process.seconds_left(limit, START_SECONDS) for process in self._processes), 0.001)

    def _bound_logs(self) -> None:
        now = time.monotonic()
        if now - self._bounded_at >= _CHECK_SECONDS:
            self._bounded_at = now
            for process in self._processes:
                process.bound_log()

    def _log_output(self, text: str) -> None:
        if text:
            self._log(self._mask(text.rstrip()))
