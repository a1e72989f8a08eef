"""A pool of warm child processes that execute runs."""

import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, suppress
from itertools import chain
from typing import Final
from uuid import UUID

from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import FinalState, FinishedStep, RunResult
from workorders.core.worker import child
from workorders.core.worker.child_handle import MAX_SENT, START_SECONDS, ChildProcess, ended_by, wait_for
from workorders.core.worker.exceptions import CallableUnavailableError, ExecutionError
from workorders.core.worker.ipc import Frame
from workorders.core.worker.ordered_queue import OrderedQueue
from workorders.core.worker.run_results import NO_SECRETS, Mask, ResultMaker, RunSpans, finished_step

_MAX_STARTS: Final = 3
_CHECK_SECONDS: Final = 0.5
_GATHER_SECONDS: Final = 0.01
"""Results that arrive within this time are returned together."""
_GATHER_STEPS_SECONDS: Final = 0.001
"""So are steps, for which runs wait: to store several together takes hardly longer than one."""
_AHEAD_SECONDS: Final = 0.05
"""How much work the pool holds ready, so that no process waits for the database, and how much of it a process has. What
that one has not begun after twice this time is taken back, for another process."""
_MAX_SENT_BYTES: Final = 256 * 1024
_PAUSE_SECONDS: Final = 0.002
"""In which a process with enough runs works alone: to wake up for each of its results costs more than the run."""
_FEED_SECONDS: Final = 0.0003
"""About what a run costs this process. So it keeps one process busy with runs as long as that, and ten with runs ten
times as long; to feed more would only cost time."""
_NEWEST_SHARE: Final = 0.1


class ProcessPool(AbstractContextManager["ProcessPool"]):
    """Executes runs in processes, each of which begins one at a time, so that a failure affects no other run.

    Processes start with the first run, and are killed when the pool is left.

    Of runs with the same ordering key, one is in a process at a time. After one that did not succeed, the others are
    held until `resume`.

    Args:
        definition: a workflow with a callable.
        mask: replaces known secrets in a log or an error. It does not recognize a secret that was cut, so more of a log
            is read than is kept.
        log: receives what processes write outside of any run.
        user_database: the connection string of the definition's `database`.
    """

    def __init__(
        self,
        definition: WorkflowDefinition,
        *,
        mask: Mask = NO_SECRETS,
        log: Callable[[str], None] = lambda _: None,
        user_database: str | None = None,
    ) -> None:
        self._definition = definition
        self._user_database = user_database
        self._captured_bytes = definition.max_log_bytes + 2 * mask.max_secret_bytes
        self._result_maker = ResultMaker(definition.max_log_bytes, mask)
        self._log = log
        #: The runs that no process has; the caller adds and removes some.
        self.unsent = OrderedQueue()
        self._spans = RunSpans(definition.name)
        #: Ordering keys that are held after a failure.
        self.held_keys: list[int] = []
        #: Steps that runs have finished, until the caller has stored them; `answer_step` is due for some.
        self.steps: list[FinishedStep] = []
        self._mean_seconds: float | None = None
        #: About how many seconds a run lasts: the mean of the last runs, or more if one at work already lasts longer;
        #: None while that is unknown. Of the last poll, because results that wait to be read make it look longer.
        self.pace: float | None = None
        self._processes: list[ChildProcess] = []
        self._failed_starts = 0
        self._checked_at = 0.0
        self._is_killed = False

    def __exit__(self, *_: object) -> None:
        """Kill every process."""
        self.close()

    @property
    def unfinished(self) -> int:
        """How many runs have no result yet."""
        return len(self.unsent) + self._sent

    @property
    def free_capacity(self) -> int:
        """How many more runs keep the processes busy for a moment: few long ones, or many short ones."""
        wanted = self._ahead * self._useful_processes
        if self._ahead == 1:
            return max(wanted - self.unfinished, 0)
        # Many at once, because each call costs the caller a transaction.
        return 0 if self.unfinished > wanted else 2 * wanted - self.unfinished

    @property
    def _ahead(self) -> int:
        """How many runs keep a process busy for a moment."""
        return 1 if self.pace is None else max(1, min(MAX_SENT, int(_AHEAD_SECONDS / self.pace)))

    @property
    def _useful_processes(self) -> int:
        processes = self._definition.processes
        most = min(processes, self._definition.concurrency or processes)
        return 1 if self.pace is None else max(1, min(most, int(self.pace / _FEED_SECONDS)))

    @property
    def _sent(self) -> int:
        return sum(len(process.sent) for process in self._processes)

    def drop(self, run_ids: Collection[UUID]) -> None:
        """Remove runs that the worker does not own any more, and kill the processes that have one."""
        if not run_ids:
            return
        for process in self._processes:
            self._take_back(process)
        self.unsent.remove(lambda run: run.run_id in run_ids)
        for process in list(self._processes):
            run = process.in_flight
            if run is not None and run.run_id in run_ids:
                self._processes.remove(process)
                process.close()
                self.unsent.free(run.ordering_key)

    def answer_step(self, step: FinishedStep, error: str | None) -> None:
        """Let a run continue that waits until its step is stored, or tell it why the step cannot be."""
        for process in self._processes:
            if process.in_flight and process.in_flight.run_id == step.run_id:
                process.answer_step(step.name, error)

    def resume(self) -> None:
        """Continue with the ordering keys that were held after failures."""
        while self.held_keys:
            self.unsent.free(self.held_keys.pop())

    def run_ids(self) -> set[UUID]:
        """Return the ids of all runs that have no result yet."""
        return {run.run_id for run in chain(self.unsent, *(process.sent for process in self._processes))}

    def stop(self) -> list[RunResult]:
        """Kill every process, take back the runs that had not begun, and return the results that were on their way.

        A run that was at work has no result, because how far it came is unknown.
        """
        results: list[RunResult] = []
        for process in self._processes:
            # Kill first: a live process could begin its run in the meantime.
            process.kill()
            with suppress(CallableUnavailableError):
                results.extend(self._received(process))
            self._take_back(process)
        self.close()
        return results

    def kill(self) -> None:
        """Kill every process, from any thread, and start no other one."""
        self._is_killed = True
        for process in tuple(self._processes):
            process.send_kill()

    def close(self) -> None:
        """Kill every process; runs in flight have no result."""
        while self._processes:
            self._processes.pop().close()

    def poll(self, seconds: float) -> list[RunResult]:
        """Return the results since the last call; wait for a limited number of seconds if there are none.

        It hardly waits if a run has finished a step.
        """
        deadline = time.monotonic() + seconds
        results: list[RunResult] = []
        while True:
            found = self._step()
            now = time.monotonic()
            if found and not results:
                deadline = min(deadline, now + _GATHER_SECONDS)
            results += found
            starting = self.unsent.ready and self._processes
            is_last = len(results) > 0 and self.unfinished <= len(self._processes)
            if any(not step.committed_elsewhere for step in self.steps):
                deadline = min(deadline, now + _GATHER_STEPS_SECONDS)
                is_last |= all(process.is_asking for process in self._processes if process.in_flight)
            if now >= deadline or is_last or not (self._sent or starting):
                return results
            has_more = all(len(process.sent) != 1 for process in self._processes)
            if results and has_more and deadline - now > _PAUSE_SECONDS:
                time.sleep(_PAUSE_SECONDS)
            else:
                left = max(min(process.seconds_left for process in self._processes), 0.001)
                wait_for(self._processes, min(deadline - now, left, _CHECK_SECONDS))

    def _step(self) -> list[RunResult]:
        """Take a step, and return the results that have arrived."""
        results: list[RunResult] = []
        self._bound_logs()
        for process in list(self._processes):
            # Read first: a run whose result has arrived, if only in part, was neither killed nor crashed.
            received = self._received(process)
            results += received
            if received:
                continue
            has_ended = process.ended
            if has_ended or process.fault or process.is_late:
                results += self._end(process, is_late=not has_ended)
            elif len(process.sent) > 1 and not process.is_unsent and process.run_seconds > 2 * _AHEAD_SECONDS:
                self._take_back(process)
        longest = max((process.run_seconds for process in self._processes), default=0.0)
        self.pace = max(self._mean_seconds or 0.0, longest) or None
        self._dispatch()
        return results

    def _received(self, process: ChildProcess) -> list[RunResult]:
        results: list[RunResult] = []
        if process.fault is None:
            try:
                for frame in process.receive():
                    results += self._results_of(process, frame)
            # It sends what another process of callables would not, so no field of it can be trusted.
            except (TypeError, ValueError, OverflowError, OSError) as error:
                process.fault = f"The process sent what is no result ({error}), so it was killed."
        return results

    def _results_of(self, process: ChildProcess, frame: Frame) -> list[RunResult]:
        run = process.in_flight
        match frame.header:
            case [child.READY]:
                process.ready = True
                self._failed_starts = 0
                self._log_output(process)
            case [child.UNAVAILABLE, str(error)]:
                self._log_output(process)
                raise CallableUnavailableError(self._result_maker.error_text(error))
            case [child.LEFT_BEHIND, str(run_id), str(text), bool(is_restored)]:
                became = "it was restored" if is_restored else "its process was replaced"
                what = self._result_maker.error_text(text)
                self._log(f"Run {run_id} left something behind in its process, and {became}: {what}")
            case [child.STEP, run_id, *_] if run and run_id == str(run.run_id):
                step = finished_step(run, frame)
                self.steps.append(step)
                if not step.committed_elsewhere:
                    process.note_step(step.name)
            case [run_id, *_] if run and run_id == str(run.run_id):
                result = self._result_maker.returned(run, frame, process.take_gap())
                process.note_result()
                self._note_seconds(*frame.header[3])
                return [self._noted(run, result)]
            case _:
                raise ValueError("of no run that it has")
        return []

    def _note_seconds(self, started: float, ended: float) -> None:
        seconds = max(ended - started, 0.0)
        mean = self._mean_seconds
        self._mean_seconds = seconds if mean is None else mean + _NEWEST_SHARE * (seconds - mean)

    def _take_back(self, process: ChildProcess) -> None:
        for run in process.take_back():
            self.unsent.put_back(run)

    def _noted(self, run: ClaimedRun, result: RunResult) -> RunResult:
        """Let the next run with the ordering key begin, or hold the key if this one did not succeed."""
        self._spans.end(result)
        if run.ordering_key is not None and result.state != "success":
            self.held_keys.append(run.ordering_key)
        else:
            self.unsent.free(run.ordering_key)
        return result

    def _end(self, process: ChildProcess, *, is_late: bool) -> list[RunResult]:
        """Kill a process that is late or has crashed, and return the results that end with it."""
        exit_code = process.kill()
        # Its last frames may have arrived after the first read.
        results = self._received(process)
        error_type, error = ended_by(exit_code)
        if process.fault:
            error_type, error, is_late = "ProcessFault", process.fault, False
        elif is_late and process.ready:
            limit = self._definition.timeout
            error_type = "TimeoutError"
            error = f"The run lasted longer than timeout ({limit:g} s), and its process was killed."
        elif is_late:
            error = f"Importing the callable lasted longer than {START_SECONDS:g} s."
        self._take_back(process)
        run = process.in_flight
        if run:
            output = process.captured_output()
            state: FinalState = "killed" if is_late else "crashed"
            ended = self._result_maker.interrupted(run, state, (error_type, error), output, seconds=process.run_seconds)
            results.append(self._noted(run, ended))
        else:
            output = self._log_output(process)
            if not process.ready:
                self._count_failed_start(error, output)
        self._processes.remove(process)
        process.close()
        return results

    def _count_failed_start(self, reason: str, output: str) -> None:
        self._failed_starts += 1
        if self._failed_starts < _MAX_STARTS:
            return
        last = f" Its last output: {output.splitlines()[-1]}" if output else ""
        raise ExecutionError(
            f"The process for {self._definition.callable} ended {_MAX_STARTS} times before any run. {reason}{last}"
        )

    def _dispatch(self) -> None:
        if not self._is_killed:
            self._start_and_send()
        if self._is_killed:  # Meanwhile, so that a process that was just started is killed, too.
            self.kill()

    def _start_and_send(self) -> None:
        wanted = min(self._useful_processes, self.unsent.ready + self._sent)
        while len(self._processes) < wanted:
            self._processes.append(
                ChildProcess(self._definition, captured_bytes=self._captured_bytes, user_database=self._user_database)
            )
        ahead = self._ahead
        for number, process in enumerate(self._processes):
            process.push()
            # Many at once, because each call costs a write.
            if number < wanted and process.ready and not process.is_unsent and 2 * len(process.sent) <= ahead:
                self._send(process, min(ahead - len(process.sent), -(-self.unsent.ready // wanted)))

    def _send(self, process: ChildProcess, limit: int) -> None:
        runs: list[ClaimedRun] = []
        size = 0
        while len(runs) < limit and size < _MAX_SENT_BYTES and self.unsent.ready:
            runs.append(self.unsent.take())
            size += runs[-1].size
        if runs:
            process.send([(run, self._spans.begin(run)) for run in runs])

    def _bound_logs(self) -> None:
        now = time.monotonic()
        if now - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            for process in self._processes:
                process.bound_log()

    def _log_output(self, process: ChildProcess) -> str:
        """Log what a process has written outside of a run, and return it."""
        output = self._result_maker.mask(process.captured_output()).strip()
        if output:
            self._log(output)
        return output
