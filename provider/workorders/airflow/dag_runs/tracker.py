"""Takes one run from its begin to its end, step by step: which DAG run does its work, and how that ends."""

from collections.abc import Callable, Collection
from dataclasses import replace
from uuid import UUID

from airflow.sdk.exceptions import AirflowRuntimeError

from workorders.airflow.dag_runs.client import GOING, SUCCEEDED, DagRuns, is_outage
from workorders.airflow.dag_runs.tracked_run import Followed
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.runs import lifecycle
from workorders.core.runs.claiming import ClaimedRun
from workorders.core.runs.lifecycle import RunResult
from workorders.core.worker import json_values
from workorders.core.worker.conversions import without_input
from workorders.core.worker.dag_conf import with_context
from workorders.core.worker.exceptions import InputUnreadableError
from workorders.core.worker.outcomes import Mask
from workorders.core.worker.result_store import Store
from workorders.core.worker.secret_masking import mask_output


class Follower:
    """What the runs of one group have in common.

    A work order never has two DAG runs at once. What an attempt that was lost has left behind is taken up, and what an
    attempt that was killed has left behind is waited for.

    Args:
        definition: the workflow, which names the DAG.
        dag_runs: Airflow's.
        store: the group's.
        group_id: the group.
        say: is told in plain sentences what is done in place of starting a DAG run.
        mask: takes the known secrets out of an output.
    """

    def __init__(
        self,
        definition: WorkflowDefinition,
        dag_runs: DagRuns,
        store: Store,
        group_id: UUID,
        *,
        say: Callable[[str], None],
        mask: Mask,
    ) -> None:
        self._definition = definition
        self._dag_runs = dag_runs
        self._store = store
        self._group_id = group_id
        self._say = say
        self._mask = mask

    def begin(self, run: ClaimedRun) -> Followed:
        """Return a run that begins now; its time runs from here on."""
        earlier = self._store.ask(
            lambda connection: lifecycle.previous_attempts(connection, run.work_order_id, run.attempt)
        )
        return Followed.begun(run, earlier, self._dag_runs.dag_id, self._definition.timeout_seconds)

    def step(self, followed: Followed) -> Followed | RunResult | None:
        """Take a run a step further, and return how it stands, or how it ended; None when it is the group's no more.

        Raises:
            AirflowRuntimeError: Airflow does not take or show DAG runs; the step can be taken again.
        """
        if followed.run.body is None:
            return followed.ended_as(without_input(followed.run)[0])
        if followed.dag_run_id is not None:
            return self._look(followed, followed.dag_run_id)
        left = _named(followed.earlier.lost)
        found = self._dag_runs.first_in(left, GOING) or self._dag_runs.first_in(left, SUCCEEDED)
        if found is not None:
            return self._take_up(followed, found)
        going = self._dag_runs.first_in(_named(followed.earlier.ended), GOING)
        if going is not None:
            return self._wait_for(followed, going)
        return self._start(followed)

    def _look(self, followed: Followed, dag_run_id: str) -> Followed | RunResult:
        end = followed.end(self._dag_runs.state(dag_run_id))
        task_id = self._definition.output_task
        if end is None or end.state != "success" or task_id is None:
            return end or followed
        try:
            output = json_values.serialize_output(
                self._dag_runs.output(dag_run_id, task_id), self._definition.output_bytes
            )
        except Exception as error:  # noqa: BLE001 - a backend of XComs, and what it makes of a value, raises anything
            if isinstance(error, AirflowRuntimeError) and is_outage(error) and not followed.is_late:
                # Airflow has just said how the DAG run is, so it is not away; what it kept back is asked for again.
                return followed
            failed = followed.without_output(task_id, error)
            return replace(failed, error=self._mask(failed.error or ""))
        if output is None:
            self._say(
                f"Run {followed.run.run_id} has no output: task {task_id} of run {dag_run_id} of DAG {followed.dag_id} "
                "returned nothing, was skipped or mapped, or is not there."
            )
            return end
        return replace(end, output=mask_output(output, self._mask))

    def _take_up(self, followed: Followed, dag_run_id: str) -> Followed | None:
        if not self._owns(followed.run):
            return None
        self._say(
            f"Run {followed.run.run_id} starts no run of DAG {self._dag_runs.dag_id}: {dag_run_id}, of an earlier "
            "attempt that was lost, goes on or has succeeded, and its end is the end of this one."
        )
        return followed.by(dag_run_id)

    def _wait_for(self, followed: Followed, dag_run_id: str) -> Followed | RunResult:
        if followed.waits_for != dag_run_id:
            self._say(
                f"Run {followed.run.run_id} waits: run {dag_run_id} of DAG {self._dag_runs.dag_id}, of an earlier "
                "attempt, still goes on, and a work order has no two of them at once."
            )
        return followed.waiting_for(dag_run_id)

    def _start(self, followed: Followed) -> Followed | RunResult | None:
        run, dag_run_id = followed.run, _name(followed.run.run_id)
        # Right before it begins, and so before it does anything: what had begun is never run again as if it had not.
        if not self._owns(run):
            return None
        try:
            conf = with_context(json_values.loads(run.body or b""), run, self._definition)
            self._dag_runs.start(dag_run_id, conf, f"work order {run.work_order_id}")
        except InputUnreadableError as error:
            return followed.refused(error)
        return followed.by(dag_run_id)

    def _owns(self, run: ClaimedRun) -> bool:
        return bool(self._store.ask(lambda connection: lifecycle.start(connection, self._group_id, [run.run_id])))


def _name(run_id: UUID) -> str:
    return f"run_{run_id}"


def _named(run_ids: Collection[UUID]) -> list[str]:
    return [_name(run_id) for run_id in run_ids]
