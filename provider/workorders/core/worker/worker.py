"""Works through the runs of one workflow: claims them, lets a pool run them, and writes down how they ended."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import Event
from typing import Final
from uuid import UUID, uuid4

from workorders.core.exceptions import ConfigurationError
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.worker.conversions import job, result, specification, without_input
from workorders.core.worker.exceptions import ExecutionError, GroupTakenError
from workorders.core.worker.heartbeat import Heartbeat
from workorders.core.worker.model import Job, Outcome
from workorders.core.worker.outcomes import Mask
from workorders.core.worker.process_pool import Pool
from workorders.core.worker.result_store import Ended, Enqueue, Store
from workorders.core.worker.summary import Tally
from workorders.core.workflows import Workflow

WRITE_RUNS: Final = 500
"""Most runs whose ends are written at once."""
WRITE_SECONDS: Final = 0.5
"""Longest time for which the end of a run is held back, to be written together with others."""
_CLAIM_AGAIN_SECONDS: Final = 1.0
_FIRST_CLAIM: Final = 16
_MOST_CLAIMED: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a group needs of whoever starts it."""

    database_url: str
    enqueue: Enqueue
    mask: Mask = str
    longest_secret: int = 0
    say: Callable[[str], None] = print
    """Is told what people should read."""
    claim_seconds: float = 120.0
    """The time slice: after it the worker claims and begins no more runs, and ends with those that have begun."""
    processes: int = 1
    """Most runs at work at the same time."""
    heartbeat_seconds: float = lifecycle.HEARTBEAT_SECONDS
    grace_seconds: float = lifecycle.GRACE_SECONDS


class Group:
    """One worker's share of a workflow's runs.

    Args:
        workflow: with the definition of a callable.
        surroundings: what it needs.
    """

    def __init__(self, workflow: Workflow, surroundings: Surroundings) -> None:
        if workflow.definition is None or workflow.definition.callable is None:
            raise ConfigurationError(f"Workflow {workflow.name} has no callable, so nothing of it was run here.")
        self.id = uuid4()
        self.tally = Tally()
        self._workflow = workflow
        self._around = surroundings
        self._stop = Event()
        self._queue: deque[ClaimedRun] = deque()
        self._ended: list[Ended] = []
        self._oldest_ended = 0.0
        self._held_lanes: set[int] = set()
        self._claim_at = 0.0
        self._cursor = claiming.ClaimCursor()
        self._mean_bytes = 1.0
        self._slice_ends_at = time.monotonic() + surroundings.claim_seconds
        around = surroundings
        self._heartbeat = Heartbeat(
            around.database_url,
            self.id,
            seconds=around.heartbeat_seconds,
            grace_seconds=around.grace_seconds,
            say=around.say,
        )
        self._store = Store(
            around.database_url,
            self.id,
            enqueue=around.enqueue,
            may_go_on=lambda: not self._heartbeat.silent,
            stop=self._stop,
            say=around.say,
        )
        self._pool = Pool(
            specification(workflow.definition, surroundings.processes),
            mask=around.mask,
            longest_secret=around.longest_secret,
            say=around.say,
        )

    def stop(self) -> None:
        """Ask it to end soon, from a signal or another thread: what was not begun is given back."""
        self._stop.set()

    def work(self) -> Tally:
        """Work until nothing can be claimed or the time slice ends, and return what became of the runs.

        Raises:
            CallableUnavailableError: the callable cannot be imported; its runs wait again.
            GroupTakenError: others have the runs.
            ExecutionError: processes cannot be started; what was not begun waits again.
            psycopg.Error: the database was away for too long; what was begun will be found lost.
        """
        try:
            with self._heartbeat, self._pool:
                try:
                    while self._step():
                        pass
                except GroupTakenError:
                    raise
                except ExecutionError:
                    self._give_back()
                    raise
        finally:
            self._store.close()
        if self._slice_is_over:
            self._around.say(
                f"Workflow {self._workflow.name}: the time slice of {self._around.claim_seconds:g} s is over; "
                "the next Dag run claims what waits."
            )
        return self.tally

    def _step(self) -> bool:
        if self._stop.is_set():
            self._give_back()
            return False
        self._make_sure()
        self._look_for_claimed()
        if self._slice_is_over:
            self._release(self._pool.give_back())
        else:
            self._claim()
            self._begin()
        if not self._queue and not self._ended and not self._pool.unfinished:
            # An answer that was lost may have been about runs that are claimed now.
            return self._store.in_doubt
        self._take(self._pool.poll(WRITE_SECONDS / 2))
        self._write_down_when_due()
        return True

    @property
    def _slice_is_over(self) -> bool:
        return time.monotonic() > self._slice_ends_at

    def _claim(self) -> None:
        now = time.monotonic()
        wanted = self._claim_size()
        if len(self._queue) > wanted // 2 or now < self._claim_at:
            return
        claimed = self._store.ask(
            lambda connection: claiming.claim(
                connection, self._workflow, limit=wanted, group_id=self.id, cursor=self._cursor
            )
        )
        if len(claimed) < wanted:
            # Nothing more waits now, or no more may be at work; the next end of a run changes that.
            self._claim_at = now + _CLAIM_AGAIN_SECONDS
        if claimed:
            self._mean_bytes = max(1.0, sum(len(run.body or b"") + len(run.request) for run in claimed) / len(claimed))
        self._queue.extend(claimed)

    def _look_for_claimed(self) -> None:
        """Find what was claimed by a question whose answer never came: nobody else would work on it."""
        if not self._store.in_doubt:
            return
        known = {UUID(run_id) for run_id in self._pool.run_ids()} | {run.run_id for run in self._queue}
        known |= {result.run_id for result, _ in self._ended}
        owned = self._store.ask(lambda connection: claiming.claimed(connection, self._workflow, self.id, but=known))
        self._store.in_doubt = False
        self._queue.extend(owned)

    def _claim_size(self) -> int:
        pace = self._pool.pace
        if pace is None:
            return _FIRST_CLAIM
        in_a_second = int(self._around.processes / max(pace, 1e-6))
        in_memory = int(claiming.MAX_BYTES / self._mean_bytes)
        return max(min(in_a_second, _MOST_CLAIMED, in_memory), self._around.processes)

    def _begin(self) -> None:
        taken = [self._queue.popleft() for _ in range(min(self._pool.appetite, len(self._queue)))]
        if not taken:
            return
        # Before they begin, and so before they do anything: what had begun is never run again as if it had not.
        owned = self._store.ask(lambda connection: lifecycle.start(connection, self.id, [run.run_id for run in taken]))
        self._pool.submit(job(run) for run in taken if run.run_id in owned and run.body is not None)
        self._end(without_input(run) for run in taken if run.run_id in owned and run.body is None)

    def _take(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            if outcome.state != "success" and outcome.job.lane is not None:
                self._held_lanes.add(outcome.job.lane)
            self._end([(result(outcome), outcome.messages)])

    def _end(self, ended: Iterable[Ended]) -> None:
        for one in ended:
            if not self._ended:
                self._oldest_ended = time.monotonic()
            self._ended.append(one)

    def _write_down_when_due(self) -> None:
        held_back = time.monotonic() - self._oldest_ended
        idle = not self._queue and not self._pool.unfinished
        if self._ended and (len(self._ended) >= WRITE_RUNS or held_back > WRITE_SECONDS or idle or self._held_lanes):
            self._write_down()

    def _write_down(self) -> None:
        ended, self._ended = self._ended, []
        finished, results = self._store.finish(ended)
        self.tally.add(results)
        self.tally.retried += len(finished.retried)
        released = {str(run_id) for run_id in finished.released}
        if released:
            # They may be claimed again at once, and must not stand in the queue twice.
            self._queue = deque(run for run in self._queue if str(run.run_id) not in released)
            self._pool.drop(released)
        for lane in self._held_lanes:
            self._pool.resume(lane)
        self._held_lanes.clear()
        # Room for others, where the workflow has a concurrency.
        self._claim_at = 0.0

    def _make_sure(self) -> None:
        """Notice what happened to the group behind its back.

        Raises:
            GroupTakenError: others have its runs.
        """
        if self._heartbeat.silent:
            self._pool.close()
            raise GroupTakenError(
                f"Workflow {self._workflow.name}: group {self.id} could not say for too long that it is alive, so "
                "others may have its runs; it stopped, and what it had in hand will be found lost."
            )
        if self._heartbeat.found_none.is_set():
            self._heartbeat.found_none.clear()
            self._make_sure_of_runs()

    def _make_sure_of_runs(self) -> None:
        in_hand = [UUID(job.run_id) for job in self._pool.at_work()]
        if in_hand and not self._store.ask(lambda connection: lifecycle.start(connection, self.id, in_hand)):
            self._pool.close()
            raise GroupTakenError(
                f"Workflow {self._workflow.name}: the runs of group {self.id} were given to others while it worked; it "
                "stopped, and changed nothing of them."
            )

    def _give_back(self) -> None:
        outcomes, left = self._pool.stop()
        self._take(outcomes)
        if self._ended:
            self._write_down()
        self._release(left)

    def _release(self, jobs: Iterable[Job]) -> None:
        """Let others have these jobs, and what stands in the queue: nothing of it has begun."""
        ids = [UUID(job.run_id) for job in jobs] + [run.run_id for run in self._queue]
        self._queue.clear()
        if ids:
            given = self._store.ask(lambda connection: lifecycle.release(connection, self.id, ids))
            self._around.say(f"{given:,} runs that had not begun wait again.")
