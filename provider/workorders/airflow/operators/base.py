"""The base of the operators that execute the runs of a workflow."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from workorders.airflow.connections import database_url
from workorders.airflow.task_errors import explain_failures, log_failure_wrapped
from workorders.core import workflows
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.postgres.connection import connect
from workorders.core.runs import lifecycle
from workorders.core.runs.lifecycle import Recovered
from workorders.core.worker.exceptions import ExecutionError
from workorders.core.worker.result_store import MAX_FAILURES, RunSummary
from workorders.core.workflows import Workflow

if TYPE_CHECKING:
    from airflow.sdk import Context


class WorkflowOperator(BaseOperator):
    """Base of the operators that execute the runs of a workflow.

    The log names a run that fails, and the task succeeds. The task fails if runs could not be executed at
    all. Runs that had not started then wait again, and the next try, or a clear, claims them.

    Args:
        definition: the workflow.
        worker: number of this task among its mapped ones.
    """

    template_fields: Sequence[str] = ("database_connection",)
    ui_color = "#e8f1fa"
    undone: ClassVar[str] = (
        "Runs that had not begun wait again; those that had begun are finished, or will be recovered as lost."
    )

    def __init__(self, *, definition: WorkflowDefinition, worker: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.definition = definition
        self.database_connection = definition.database_connection
        self.worker = worker

    @log_failure_wrapped
    def execute(self, context: "Context") -> None:
        """Execute runs.

        Raises:
            ExecutionError: runs could not be executed; its text names their states.
        """
        with explain_failures(self, context, f"Workflow {self.definition.name}", self.undone, ExecutionError):
            url = database_url(self.database_connection)
            workflow, recovered = _prepare(url, self.definition)
            _log_recovered(recovered, self.log.warning)
            self.work(url, workflow)

    @abstractmethod
    def work(self, url: str, workflow: Workflow) -> None:
        """Execute runs.

        Args:
            url: where the work orders' database is.
            workflow: as it is registered there.
        """

    def log_summary(self, worker_id: object, summary: RunSummary) -> None:
        """Log the first runs that did not succeed, and the number of all."""
        for line in summary.failures:
            self.log.warning("%s", line)
        unnamed = summary.total - summary.states["success"] - len(summary.failures)
        if unnamed:
            self.log.warning(
                "%s more runs did not succeed; the first %s are listed above.", f"{unnamed:,}", MAX_FAILURES
            )
        self.log.info("Workflow %s, worker %s: %s.", self.definition.name, worker_id, summary)


def _prepare(url: str, definition: WorkflowDefinition) -> tuple[Workflow, Recovered]:
    """Register the workflow, and find its lost runs."""
    with connect(url, application_name="workorders execute") as connection:
        workflow = workflows.register(connection, definition)
        connection.commit()
        return workflow, lifecycle.recover_lost(connection, workflow)


def _log_recovered(recovered: Recovered, log: Callable[..., None]) -> None:
    """Log what became of the runs of workers whose heartbeat stopped, if there were any."""
    if recovered != Recovered():
        log(
            "Workers sent no heartbeat any more: %s runs had not begun and wait again, %s are retried, %s are lost.",
            *(recovered.available, recovered.retried, recovered.lost),
        )
