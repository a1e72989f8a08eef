"""The operator that works through a workflow's runs."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
from airflow.sdk import BaseOperator

from workorders.airflow.connections import database_url
from workorders.airflow.retries import next_try_seconds
from workorders.core import runs, workflows
from workorders.core.database import connect
from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.execution.exceptions import ExecutionError
from workorders.core.execution.group import Group, Surroundings
from workorders.core.execution.masking import Mask, secrets_in, secrets_of
from workorders.core.execution.tally import MOST_NAMED
from workorders.core.runs import Recovered
from workorders.core.workflow_definition import WorkflowDefinition
from workorders.core.workflows import Workflow
from workorders.outbox.published import enqueue_published

if TYPE_CHECKING:
    from airflow.sdk import Context


class ExecuteRunsOperator(BaseOperator):
    """Claims runs of a workflow, group by group, and works through them until none is left.

    A run that fails is that run's failure, and stands in the log here; the task succeeds. The task fails when runs
    could not be worked through at all: the callable cannot be imported, the database is away. What was not begun waits
    again then, and the next try, or a clear, claims what waits.

    Args:
        definition: the workflow, with a callable.
        claim_seconds: after so long no more is claimed; what is in hand is finished.
        group: number of this task among its mapped ones.
    """

    template_fields: Sequence[str] = ("database_connection",)
    ui_color = "#e8f1fa"

    def __init__(
        self, *, definition: WorkflowDefinition, claim_seconds: float = 600.0, group: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.definition = definition
        self.database_connection = definition.database_connection
        self.claim_seconds = claim_seconds
        self.group = group
        self._at_work: Group | None = None

    def execute(self, context: "Context") -> None:
        """Work.

        Raises:
            ExecutionError: runs could not be worked through; the sentence says what became of them.
        """
        try:
            self._work(turn_of(context))
        except (psycopg.Error, WorkOrdersError) as error:
            ti = context["ti"]
            seconds = next_try_seconds(ti.try_number, ti.max_tries)
            reason = one_line(error)
            raise ExecutionError(f"Workflow {self.definition.name}: {reason} Next try in {seconds} s.") from error

    def on_kill(self) -> None:
        """Give back what was not begun."""
        if self._at_work is not None:
            self._at_work.stop()

    def _work(self, turn: str) -> None:
        url = database_url(self.database_connection)
        workflow, recovered = prepare(url, self.definition)
        say_recovered(recovered, self.log.warning)
        mask = Mask({*secrets_of(os.environ), *secrets_in(url)})
        group = Group(
            workflow,
            Surroundings(
                database_url=url,
                enqueue=enqueue_published,
                mask=mask,
                longest_secret=mask.longest,
                say=partial(self.log.info, "%s"),
                claim_seconds=self.claim_seconds,
                turn=turn,
                turn_seconds=self.definition.turn_seconds,
                processes=self.definition.processes,
            ),
        )
        self._at_work = group
        try:
            group.work()
        finally:
            self._say_what_became(group)

    def _say_what_became(self, group: Group) -> None:
        for line in group.tally.named:
            self.log.warning("%s", line)
        unnamed = group.tally.total - group.tally.states["success"] - len(group.tally.named)
        if unnamed:
            self.log.warning("%s more runs did not succeed; the first %s stand above.", f"{unnamed:,}", MOST_NAMED)
        self.log.info("Workflow %s, group %s: %s.", self.definition.name, group.id, group.tally)


def turn_of(context: "Context") -> str:
    """Return what the mapped tasks of one DAG run call their turn. A task that is cleared later has another one."""
    ti = context["ti"]
    return f"{ti.run_id} {ti.try_number}"


def prepare(url: str, definition: WorkflowDefinition) -> tuple[Workflow, Recovered]:
    """Register the workflow, and find its lost runs."""
    with connect(url, application_name="workorders execute") as connection:
        workflow = workflows.register(connection, definition)
        connection.commit()
        return workflow, runs.recover_lost(connection, workflow)


def say_recovered(recovered: Recovered, say: Callable[..., None]) -> None:
    """Say what became of the runs of groups that fell silent, if there were any."""
    if recovered != Recovered():
        say(
            "Groups fell silent: %s runs had not begun and wait again, %s are tried again, %s are lost.",
            *(recovered.available, recovered.retried, recovered.lost),
        )
