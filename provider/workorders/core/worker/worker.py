"""A worker: claims runs of one workflow, executes them in a pool of processes, and stores how they ended."""

import time
from collections import deque
from collections.abc import Callable, Iterable
from threading import Event
from typing import Concatenate, Final, ParamSpec, TypeVar
from uuid import UUID, uuid4

from workorders.core import workers
from workorders.core.exceptions import ConfigurationError
from workorders.core.postgres.connection import Connection
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import RunResult
from workorders.core.worker.exceptions import ExecutionError
from workorders.core.worker.process_pool import ProcessPool
from workorders.core.worker.result_store import (
    MAX_STORED_BYTES,
    MAX_STORED_RUNS,
    Enqueue,
    ResultStore,
    RunSummary,
    size_of,
)
from workorders.core.worker.run_results import NO_SECRETS, Mask, without_input
from workorders.core.workers import Heartbeat
from workorders.core.workflows import Workflow

P = ParamSpec("P")
T = TypeVar("T")

MAX_STORE_DELAY_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 0.2
_LOOK_SHARE: Final = 10
"""During a wait, looks take at most a tenth of the time: one is slow if very many work orders wait for a retry."""
_MAX_LOOK_SECONDS: Final = 10.0
_MAX_KEPT_SECONDS: Final = 60.0
"""How long a worker that would end waits until it can store the results that are kept back."""
_MAX_KEPT_SECONDS_AFTER_STOP: Final = 10.0
_ASK_SECONDS: Final = 5.0
"""Time between two questions whether the wait may continue."""
_FIRST_CLAIM: Final = 16
_MAX_CLAIMED: Final = 1_000


class Worker:
    """Executes runs of one workflow, and waits for more for the `linger` of its definition.

    After the time slice it begins no more runs, and ends when those that have begun are finished. `may_wait` returns
    whether the wait may continue; it is asked every few seconds, and only during a wait.
    """

    def __init__(
        self,
        workflow: Workflow,
        *,
        database_url: str,
        enqueue: Enqueue,
        user_database: str | None = None,
        mask: Mask = NO_SECRETS,
        log: Callable[[str], None] = print,
        may_wait: Callable[[], bool] = lambda: True,
        heartbeat_seconds: float = workers.HEARTBEAT_SECONDS,
        grace_seconds: float = workers.GRACE_SECONDS,
    ) -> None:
        if workflow.definition is None or workflow.definition.callable is None:
            raise ConfigurationError(f"Workflow {workflow.name} has no callable, so none of its runs was executed.")
        self.id = uuid4()
        self._workflow = workflow
        self._definition = workflow.definition
        self._log = log
        self._may_wait = may_wait
        self._grace_seconds = grace_seconds
        self._stop = Event()
        self._queue: deque[ClaimedRun] = deque()
        self._ended: list[RunResult] = []
        self._ended_bytes = 0
        self._stored_at = 0.0
        self._is_drained = False
        self._look_at = 0.0
        self._ask_at = 0.0
        self._mean_bytes = 1.0
        now = time.monotonic()
        self._linger_ends_at = now + self._definition.linger
        self._slice_ends_at = now + self._definition.time_slice
        self._store = ResultStore(
            database_url,
            self.id,
            enqueue=enqueue,
            may_continue=lambda: not self._heartbeat.is_lost,
            stop=self._stop,
            log=log,
        )
        self._pool = ProcessPool(workflow.definition, mask=mask, log=log, user_database=user_database)
        self._heartbeat = Heartbeat(
            database_url,
            self.id,
            seconds=heartbeat_seconds,
            grace_seconds=grace_seconds,
            # The main thread may wait for the database, and the runs of this worker will soon be those of others.
            on_loss=self._pool.kill,
            log=log,
        )

    @property
    def summary(self) -> RunSummary:
        """How the runs have ended so far."""
        return self._store.summary

    def stop(self) -> None:
        """Ask the worker to end soon, from a signal or another thread: it releases the runs that have not begun."""
        self._stop.set()

    def work(self) -> RunSummary:
        """Execute runs until none could be claimed for `linger` or the time slice ends, and return how they ended.

        Raises:
            CallableUnavailableError: the callable cannot be imported; its runs wait again.
            OwnershipLostError: another worker may own the runs; the processes were killed.
            ExecutionError: processes cannot be started; runs that had not begun wait again.
            psycopg.Error: the database was unavailable for too long; runs that had begun will be lost.
        """
        try:
            self._do(workers.add_worker, self._workflow, self.id, self._grace_seconds)
            with self._heartbeat, self._pool:
                try:
                    while self._step():
                        pass
                except ExecutionError:
                    self._stop_early()
                    raise
            self._do(workers.remove_worker, self.id)
        finally:
            self._store.close()
        if self._slice_is_over:
            self._log(
                f"Workflow {self._workflow.name}: the time slice of {self._definition.time_slice:g} s is over; "
                "the next Dag run claims the runs that are available."
            )
        return self.summary

    def _step(self) -> bool:
        if self._stop.is_set():
            self._stop_early()
            return False
        if self._store.must_reconcile:
            self._reconcile()
        if self._slice_is_over:
            self._release_unstarted()
        elif not self._store.is_full:
            self._claim()
            self._start()
        if not self._ended and not self._pool.unfinished:
            if self._store.kept and self._slice_is_over:
                self._await_kept()
                return False
            if self._store.kept:
                self._stop.wait(_LOOK_SECONDS)
            elif not self._queue:
                # A transaction whose commit was not confirmed may have claimed runs.
                return self._store.must_reconcile or self._wait()
        self._end(self._pool.poll(MAX_STORE_DELAY_SECONDS / 2))
        # A run waits for each step that is not committed elsewhere.
        if any(not step.committed_elsewhere for step in self._pool.steps):
            self._store_steps()
        self._store_when_due()
        self._linger_ends_at = time.monotonic() + self._definition.linger
        return True

    def _wait(self) -> bool:
        """Wait until the next look for runs, and return whether there is one."""
        now = time.monotonic()
        ends_at = min(self._linger_ends_at, self._slice_ends_at)
        if now >= ends_at:
            return False
        if now >= self._ask_at:
            self._ask_at = now + _ASK_SECONDS
            if not self._may_wait():
                return False
        self._stop.wait(max(min(self._look_at, ends_at) - now, 0.0))
        return True

    @property
    def _slice_is_over(self) -> bool:
        return time.monotonic() > self._slice_ends_at

    def _claim(self) -> None:
        wanted = self._claim_size()
        if len(self._queue) > wanted // 2 or (self._is_drained and not self._look()):
            return
        claimed = self._do(claiming.claim, self._workflow, limit=wanted, worker_id=self.id)
        # If there are fewer, nothing more waits, or the concurrency is reached.
        self._is_drained = len(claimed) < wanted
        if claimed:
            self._mean_bytes = max(1.0, sum(run.size for run in claimed) / len(claimed))
        self._queue.extend(claimed)

    def _look(self) -> bool:
        """Return whether there are runs to claim; a claim would lock rows for the same answer."""
        begun = time.monotonic()
        if begun < self._look_at:
            return False
        found = self._do(claiming.list_claimable, [self._workflow.name])
        if any(claimable.has_lost for claimable in found):
            self._log(str(self._do(lifecycle.recover_lost, self._workflow)))
        now = time.monotonic()
        self._look_at = now + min(max(_LOOK_SECONDS, (now - begun) * (_LOOK_SHARE - 1)), _MAX_LOOK_SECONDS)
        return any(claimable.is_claimable for claimable in found)

    def _reconcile(self) -> None:
        """Drop the runs that this worker does not own any more, and release those that it owns without knowing.

        A transaction whose answer was lost may have released or claimed runs.
        """
        self._store.must_reconcile = False
        known = self._pool.run_ids() | {run.run_id for run in self._queue}

        def find(connection: Connection) -> set[UUID]:
            owned = lifecycle.find_owned(connection, self._workflow.id, self.id)
            # What was started and is in no process any more may have an effect, so it is never begun again.
            lifecycle.release(connection, self.id, {run_id for run_id, begun in owned.items() if not begun} - known)
            return set(owned)

        owned = self._do(find)
        self._pool.drop(known - owned)
        self._queue = deque(run for run in self._queue if run.run_id in owned)
        self._is_drained = False

    def _claim_size(self) -> int:
        pace = self._pool.pace
        if pace is None:
            return _FIRST_CLAIM
        in_a_second = int(self._definition.processes / max(pace, 1e-6))
        in_memory = int(claiming.MAX_BYTES / self._mean_bytes)
        return max(min(in_a_second, _MAX_CLAIMED, in_memory), self._definition.processes)

    def _start(self) -> None:
        taken = [self._queue.popleft() for _ in range(min(self._pool.free_capacity, len(self._queue)))]
        if not taken:
            return
        # Mark them before they begin, so that a run that has begun is never executed again as if it had not.
        owned = self._do(lifecycle.start, self.id, [run.run_id for run in taken], begin_later=True)
        self._pool.unsent.put(run for run in taken if run.run_id in owned and run.body is not None)
        self._end(without_input(run) for run in taken if run.run_id in owned and run.body is None)

    def _store_steps(self) -> None:
        self._require_ownership()
        steps, self._pool.steps = self._pool.steps, []
        stored = self._store.store_steps(steps)
        for step, error in stored:
            self._pool.answer_step(step, error)
            if error:
                self._log(f"Run {step.run_id}: the result of step {step.name!r} cannot be stored: {error}")
        # The worker does not own the other runs any more.
        self._pool.drop({step.run_id for step in steps} - {step.run_id for step, _ in stored})

    def _end(self, results: Iterable[RunResult]) -> None:
        for result in results:
            self._ended.append(result)
            self._ended_bytes += size_of(result)

    def _store_when_due(self) -> None:
        waiting_bytes = self._ended_bytes + sum(len(step.result) for step in self._pool.steps)
        is_due = (
            len(self._ended) >= MAX_STORED_RUNS
            or waiting_bytes >= MAX_STORED_BYTES
            or time.monotonic() - self._stored_at > MAX_STORE_DELAY_SECONDS
            or not (self._queue or self._pool.unfinished)
            or self._pool.held_keys
        )
        if self._store.is_due or ((self._ended or self._pool.steps) and is_due):
            self._store_results()
            self._stored_at = time.monotonic()

    def _store_results(self) -> None:
        self._require_ownership()
        if self._pool.steps:
            self._store_steps()
        ended, self._ended, self._ended_bytes = self._ended, [], 0
        self._store.finish(ended)
        if self._store.must_reconcile:
            self._reconcile()
        # No worker claims the later runs of an ordering key before the kept results of earlier ones are stored.
        if keys := {result.ordering_key for result in self._store.kept} - {None}:
            self._release_unstarted(lambda run: run.ordering_key in keys)
        self._pool.resume()
        # With a concurrency or an ordering key, more runs may be claimed now.
        self._look_at = 0.0

    def _await_kept(self) -> None:
        """Wait for a limited time until the kept results are stored; the runs of the others will be lost."""
        begun = time.monotonic()
        while self._store.kept:
            self._require_ownership()
            limit = _MAX_KEPT_SECONDS_AFTER_STOP if self._stop.is_set() else _MAX_KEPT_SECONDS
            if time.monotonic() - begun > limit:
                self._log(
                    f"The results of {len(self._store.kept):,} runs were not stored, and the runs will be lost: "
                    "another transaction has written to keys to which they publish, and has not ended within "
                    f"{limit:g} s. Find it in pg_stat_activity, and rerun the runs."
                )
                return
            time.sleep(_LOOK_SECONDS)
            self._store_when_due()

    def _do(self, step: Callable[Concatenate[Connection, P], T], *arguments: P.args, **named: P.kwargs) -> T:
        """Take a step in a transaction."""
        self._require_ownership()
        return self._store.run_in_transaction(lambda connection: step(connection, *arguments, **named))

    def _require_ownership(self) -> None:
        if self._heartbeat.is_lost:
            raise workers.lost(self.id)

    def _stop_early(self) -> None:
        self._end(self._pool.stop())
        if self._ended or self._pool.steps:
            self._store_results()
        self._release_unstarted()
        self._await_kept()

    def _release_unstarted(self, matches: Callable[[ClaimedRun], bool] = lambda _: True) -> None:
        """Release the runs that no process has and that match; all by default."""
        runs = [*self._pool.unsent.remove(matches), *filter(matches, self._queue)]
        self._queue = deque(run for run in self._queue if not matches(run))
        if runs:
            released = self._do(lifecycle.release, self.id, [run.run_id for run in runs])
            self._log(f"{released:,} runs that had not begun wait again.")
