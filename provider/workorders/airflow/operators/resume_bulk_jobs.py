"""The operator that runs pending and orphaned bulk jobs."""

from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from workorders.airflow.connections import database_url
from workorders.airflow.operators.bulk_jobs import ProgressLogger
from workorders.airflow.task_errors import explain_failures, log_failure_wrapped
from workorders.core.bulk import runner
from workorders.core.postgres.connection import connect

if TYPE_CHECKING:
    from airflow.sdk import Context

_UNDONE: Final = "What they had done stays done, and the next run of this Dag continues them."


class ResumeBulkJobsOperator(BaseOperator):
    """Runs reruns and cancels that were created for later, wait for capacity, or are orphaned.

    Args:
        database_connection: Airflow connection of the work orders' database.
    """

    ui_color = "#fdf0d5"

    def __init__(self, *, database_connection: str = "workorders_db", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.database_connection = database_connection

    @log_failure_wrapped
    def execute(self, context: "Context") -> dict[str, int]:
        """Run them, and return how many there were by their state of now.

        Raises:
            AirflowFailException: a job failed; the others were run nevertheless.
            TaskFailedError: the database failed.
        """
        with (
            explain_failures(self, context, "Pending bulk jobs", _UNDONE),
            connect(database_url(self.database_connection), application_name="workorders jobs") as connection,
        ):
            worked = runner.resume_orphaned(connection, progress=ProgressLogger(self.log))
        states: dict[str, int] = {}
        for job in worked.jobs:
            self.log.info("%s %s", job, job.error or "")
            states[job.state] = states.get(job.state, 0) + 1
        if worked.failures:
            # Another try of this task would not take them again, and would hide that they failed.
            raise AirflowFailException(" ".join(worked.failures))
        return states
