"""What the operators share that claim runs of a workflow and work through them."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from workorders.airflow.connections import database_url
from workorders.airflow.task_errors import explained, readable
from workorders.core import workflows
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.postgres.connection import connect
from workorders.core.runs import lifecycle
from workorders.core.runs.lifecycle import Recovered
from workorders.core.worker.exceptions import ExecutionError
from workorders.core.worker.summary import MOST_NAMED, Tally
from workorders.core.workflows import Workflow

if TYPE_CHECKING:
    from airflow.sdk import Context


class GroupOperator(BaseOperator):
    """Claims runs of a workflow, group by group, until none is left.

    A run that fails is that run's failure, and stands in the log here; the task succeeds. The task fails when runs
    could not be worked through at all. What was not begun waits again then, and the next try, or a clear, claims what
    waits.

    Args:
        definition: the workflow.
        group: number of this task among its mapped ones.
    """

    template_fields: Sequence[str] = ("database_connection",)
    ui_color = "#e8f1fa"
    undone: ClassVar[str] = "Runs that were not begun wait again; what was at work has its end, or is found lost."

    def __init__(self, *, definition: WorkflowDefinition, group: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.definition = definition
        self.database_connection = definition.database_connection
        self.group = group

    @readable
    def execute(self, context: "Context") -> None:
        """Work.

        Raises:
            ExecutionError: runs could not be worked through; the sentence says what became of them.
        """
        with explained(self, context, f"Workflow {self.definition.name}", self.undone, ExecutionError):
            url = database_url(self.database_connection)
            workflow, recovered = _prepare(url, self.definition)
            _say_recovered(recovered, self.log.warning)
            self.work(url, workflow)

    @abstractmethod
    def work(self, url: str, workflow: Workflow) -> None:
        """Claim and work.

        Args:
            url: where the work orders' database is.
            workflow: as it is registered there.
        """

    def say_what_became(self, group_id: object, tally: Tally) -> None:
        """Name the first runs that did not succeed, and count all."""
        for line in tally.named:
            self.log.warning("%s", line)
        unnamed = tally.total - tally.states["success"] - len(tally.named)
        if unnamed:
            self.log.warning("%s more runs did not succeed; the first %s stand above.", f"{unnamed:,}", MOST_NAMED)
        self.log.info("Workflow %s, group %s: %s.", self.definition.name, group_id, tally)


def _prepare(url: str, definition: WorkflowDefinition) -> tuple[Workflow, Recovered]:
    """Register the workflow, and find its lost runs."""
    with connect(url, application_name="workorders execute") as connection:
        workflow = workflows.register(connection, definition)
        connection.commit()
        return workflow, lifecycle.recover_lost(connection, workflow)


def _say_recovered(recovered: Recovered, say: Callable[..., None]) -> None:
    """Say what became of the runs of groups that fell silent, if there were any."""
    if recovered != Recovered():
        say(
            "Groups fell silent: %s runs had not begun and wait again, %s are tried again, %s are lost.",
            *(recovered.available, recovered.retried, recovered.lost),
        )
