"""The operator that works through the bulk jobs that nobody works at."""

from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from workorders.airflow.connections import database_url
from workorders.airflow.operators.bulk_jobs import ProgressLogger
from workorders.airflow.task_errors import explained, readable
from workorders.core.bulk import orphaned_jobs
from workorders.core.postgres.connection import connect

if TYPE_CHECKING:
    from airflow.sdk import Context

_UNDONE: Final = "What they had done stays done, and the next run of this DAG goes on where they stood."


class LeftJobsOperator(BaseOperator):
    """Works through reruns and cancels that were written down for later, wait for room, or lost their worker.

    Args:
        database_connection: Airflow connection of the work orders' database.
    """

    ui_color = "#fdf0d5"

    def __init__(self, *, database_connection: str = "workorders_db", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.database_connection = database_connection

    @readable
    def execute(self, context: "Context") -> dict[str, int]:
        """Work; returns how many jobs there were, by the state in which they are now.

        Raises:
            AirflowFailException: a job failed; the others were worked through all the same.
            TaskFailedError: the database failed.
        """
        with (
            explained(self, context, "The bulk jobs that nobody works at", _UNDONE),
            connect(database_url(self.database_connection), application_name="workorders jobs") as connection,
        ):
            worked = orphaned_jobs.resume_orphaned(connection, progress=ProgressLogger(self.log))
        states: dict[str, int] = {}
        for job in worked.jobs:
            self.log.info("%s %s", job, job.error or "")
            states[job.state] = states.get(job.state, 0) + 1
        if worked.failures:
            # Another try of this task would not take them again, and would hide that they failed.
            raise AirflowFailException(" ".join(worked.failures))
        return states
