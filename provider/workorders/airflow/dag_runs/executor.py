"""The DAG runs of one group: started for its runs, and followed to their ends."""

import time
from collections.abc import Callable
from threading import Event
from typing import Final
from uuid import UUID, uuid4

from airflow.sdk.exceptions import AirflowRuntimeError

from workorders.airflow.dag_runs.api_outage import Outage
from workorders.airflow.dag_runs.client import DagRuns, is_outage
from workorders.airflow.dag_runs.tracked_run import Followed
from workorders.airflow.dag_runs.tracker import Follower
from workorders.core.runs import claiming, lifecycle
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import RunResult
from workorders.core.worker.exceptions import ExecutionError, GroupTakenError
from workorders.core.worker.heartbeat import Heartbeat
from workorders.core.worker.lanes import LaneQueue
from workorders.core.worker.outcomes import Mask
from workorders.core.worker.result_store import Store
from workorders.core.worker.summary import Tally
from workorders.core.workflows import Workflow
from workorders.outbox.enqueue import enqueue_published

LOOK_SECONDS: Final = 2.0
"""Time between two looks at the DAG runs."""
_MOST_CLAIMED: Final = 1_000


class Following:
    """The DAG runs of one group.

    Args:
        url: where the work orders' database is.
        workflow: as it is registered there.
        stop: ends it soon when it is set; DAG runs that were started go on.
        claim_seconds: after so long no more is begun; DAG runs that were started are followed to their ends.
        say: is told in plain sentences what becomes of the group as a whole.
        mask: takes the known secrets out of outputs.
    """

    def __init__(
        self,
        url: str,
        workflow: Workflow,
        *,
        stop: Event,
        claim_seconds: float,
        say: Callable[[str], None],
        mask: Mask = str,
    ) -> None:
        if workflow.definition is None or workflow.definition.dag_id is None:
            raise ExecutionError(f"Workflow {workflow.name} has no dag_id, so no DAG was run for it.")
        self._workflow = workflow
        self._definition = workflow.definition
        self._stop = stop
        self._until = time.monotonic() + claim_seconds
        self.group_id = uuid4()
        self._heartbeat = Heartbeat(url, self.group_id, say=say)
        self._store = Store(
            url,
            self.group_id,
            enqueue=enqueue_published,
            may_go_on=lambda: not self._heartbeat.silent,
            stop=stop,
            say=say,
        )
        dag_runs = DagRuns(workflow.definition.dag_id)
        self._follower = Follower(self._definition, dag_runs, self._store, self.group_id, say=say, mask=mask)
        self._outage = Outage(say)
        self._queue: LaneQueue[ClaimedRun] = LaneQueue()
        self._followed: dict[UUID, Followed] = {}
        self._refusal: AirflowRuntimeError | None = None
        self._tally = Tally()

    def work(self) -> Tally:
        """Start and follow until nothing can be claimed and all has ended, and return what became of the runs.

        Raises:
            GroupTakenError: the group could not say that it is alive.
            AirflowRuntimeError: Airflow does not take or show DAG runs.
        """
        try:
            with self._heartbeat:
                try:
                    while not self._stop.is_set() and self._step():
                        self._stop.wait(max(LOOK_SECONDS, self._outage.pause_seconds))
                except AirflowRuntimeError:
                    self._give_back()
                    raise
                self._give_back()
        finally:
            self._store.close()
        return self._tally

    def _step(self) -> bool:
        """Begin, look, and return whether there is more to do."""
        self._make_sure()
        if self._outage.pause_seconds:
            self._look()
            return True
        if self._refusal is not None:
            self._give_back()
        elif time.monotonic() > self._until:
            # One that waits for an earlier DAG run has begun: its time runs.
            self._release(self._queue.take_all())
        else:
            self._claim()
            self._begin()
        if self._followed:
            self._look()
            return True
        if self._refusal is not None:
            raise self._refusal
        # Behind one that ended at once, or by a question whose answer was lost, others of the group may be left.
        return len(self._queue) > 0 or self._store.in_doubt

    def _make_sure(self) -> None:
        """Notice what happened to the group behind its back.

        Raises:
            GroupTakenError: others may have its runs.
        """
        if self._heartbeat.silent:
            raise GroupTakenError(
                f"Group {self.group_id} could not say for too long that it is alive; its DAG runs go on, and its runs "
                "will be found lost."
            )
        if self._store.in_doubt:
            # Runs may be claimed, or released behind a retry, by a question whose answer never came.
            owned = self._store.ask(
                lambda connection: claiming.claimed(
                    connection, self._workflow, self.group_id, but=self._followed.keys()
                )
            )
            self._store.in_doubt = False
            self._queue.take_all()
            self._queue.put(owned)

    def _claim(self) -> None:
        free = self._definition.processes - len(self._followed) - self._queue.ready
        room = min(free, _MOST_CLAIMED - len(self._queue))
        if room < 1:
            return
        claimed = self._store.ask(
            lambda connection: claiming.claim(connection, self._workflow, limit=room, group_id=self.group_id)
        )
        self._queue.put(claimed)

    def _begin(self) -> None:
        for run in self._queue.take(self._definition.processes - len(self._followed)):
            self._followed[run.run_id] = self._follower.begin(run)

    def _look(self) -> None:
        ended: list[RunResult] = []
        unanswered: list[tuple[Followed, AirflowRuntimeError]] = []
        answered = False
        try:
            for followed in list(self._followed.values()):
                try:
                    answered |= self._take_further(followed, ended)
                except AirflowRuntimeError as error:
                    if not is_outage(error):
                        raise
                    unanswered.append((followed, error))
                    if len(unanswered) > 1 and not answered:
                        break
            self._judge(unanswered, ended, answered=answered)
        finally:
            if ended:
                self._finish(ended)

    def _judge(
        self, unanswered: list[tuple[Followed, AirflowRuntimeError]], ended: list[RunResult], *, answered: bool
    ) -> None:
        """Tell an outage of Airflow, which passes, from one question that it never answers, which must end its run."""
        if answered:
            self._outage.answered()
            results = (followed.unanswered(error) for followed, error in unanswered)
            ended.extend(result for result in results if result is not None)
        elif unanswered:
            self._outage.met(unanswered[0][1])

    def _take_further(self, followed: Followed, ended: list[RunResult]) -> bool:
        """Take a run a step further, and return whether Airflow answered.

        Raises:
            AirflowRuntimeError: Airflow does not answer, or does not show a DAG run that it has taken.
        """
        if followed.dag_run_id is None and self._refusal is not None:
            return False
        try:
            became = self._follower.step(followed)
        except AirflowRuntimeError as error:
            if is_outage(error) or followed.dag_run_id is not None:
                raise
            # It takes none of the others either; those that it has taken are followed to their ends.
            self._refusal = error
            return True
        if became is None:
            self._forget(followed.run)
        elif isinstance(became, Followed):
            self._followed[followed.run.run_id] = became
        else:
            ended.append(became)
        return True

    def _finish(self, results: list[RunResult]) -> None:
        finished, written = self._store.finish([(result, ()) for result in results])
        self._tally.add(written)
        self._tally.retried += len(finished.retried)
        self._queue.drop(finished.released)
        for result in results:
            self._forget(self._followed[result.run_id].run)

    def _forget(self, run: ClaimedRun) -> None:
        del self._followed[run.run_id]
        self._queue.free(run.lane)

    def _give_back(self) -> None:
        """Let others have what no DAG run was started for.

        Where Airflow has started one and its answer was lost, whoever claims the run again finds it by its id.
        """
        without = [one.run for one in self._followed.values() if one.dag_run_id is None]
        self._release(self._queue.take_all() + without)
        for run in without:
            self._forget(run)

    def _release(self, left: list[ClaimedRun]) -> None:
        ids = [run.run_id for run in left]
        if ids:
            self._store.ask(lambda connection: lifecycle.release(connection, self.group_id, ids))
