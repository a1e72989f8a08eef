"""Operators that keep an installation in order: recover lost runs, refresh the index, delete what expired, run jobs."""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.exceptions import AirflowFailException

from workorders.airflow.operators.base import MaintenanceOperator
from workorders.core.bulk import runner
from workorders.core.bulk.jobs import Job
from workorders.core.maintenance import refresh, retention
from workorders.core.postgres.connection import Connection
from workorders.core.runs import lifecycle
from workorders.core.runs.lifecycle import Recovered

if TYPE_CHECKING:
    from airflow.sdk import Context

_REPORT_SECONDS: Final = 5.0


class RecoverLostRunsOperator(MaintenanceOperator):
    """Recovers the lost runs of every workflow, also of one whose Dag is paused or does not exist any more.

    Args:
        database_connection: Airflow connection of the work orders' database.
    """

    ui_color = "#fdf0d5"
    where = "The recovery of lost runs"

    def work(self, connection: Connection, context: "Context") -> dict[str, Any]:
        """Recover them, and return the numbers."""
        recovered = lifecycle.recover_lost(connection)
        if recovered != Recovered():
            self.log.warning("%s", recovered)
        return asdict(recovered)


class RefreshHistoryOperator(MaintenanceOperator):
    """Adds new work orders to the full-text index, and counts work orders by state.

    Args:
        seconds: time after which no further step begins; the next Dag run continues.
        database_connection: Airflow connection of the work orders' database.
    """

    ui_color = "#e8f0e8"
    where = "The refresh of the search index"

    def __init__(self, *, seconds: float = 240.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seconds = seconds

    def work(self, connection: Connection, context: "Context") -> dict[str, Any]:
        """Refresh the index, and return the numbers."""
        done = refresh.refresh_history(connection, seconds=self.seconds)
        self.log.info(
            "%s work orders were added to the index, and %s were indexed again.",
            f"{done.filled:,}",
            f"{done.looked_again:,}",
        )
        return {"filled": done.filled, "looked_again": done.looked_again, "counted": done.counted}


class RetentionOperator(MaintenanceOperator):
    """Once per day, erases and deletes what has expired by the retention of each workflow, and deletes old batches.

    Args:
        database_connection: Airflow connection of the work orders' database.
    """

    ui_color = "#f0e8e8"
    where = "The retention of the history"

    def work(self, connection: Connection, context: "Context") -> dict[str, Any]:
        """Delete what has expired, and return the numbers; do nothing if that was done a short time ago, or is done."""
        with connection.transaction():
            is_due = retention.is_due(connection)
        if not is_due:
            self.log.info("Nothing to do: retention runs elsewhere, or ended less than a day ago.")
            return {}
        swept = retention.delete_expired(connection)
        self.log.info("%s work orders were deleted, and %s inputs erased.", f"{swept.deleted:,}", f"{swept.wiped:,}")
        return {"deleted": swept.deleted, "wiped": swept.wiped}


class ResumeBulkJobsOperator(MaintenanceOperator):
    """Runs reruns and cancels that were created for later, wait for capacity, or are orphaned.

    Args:
        database_connection: Airflow connection of the work orders' database.
    """

    ui_color = "#fdf0d5"
    where = "Pending bulk operations"

    def work(self, connection: Connection, context: "Context") -> dict[str, Any]:
        """Run them, and return the number of jobs by their current state.

        Raises:
            AirflowFailException: a job failed; the others were run.
        """
        worked = runner.resume_orphaned(connection, progress=_ProgressLogger(self.log))
        states: dict[str, int] = {}
        for job in worked.jobs:
            self.log.info("%s %s", job, job.error or "")
            states[job.state] = states.get(job.state, 0) + 1
        if worked.failures:
            # Another try of this task would not take them again, and would hide that they failed.
            raise AirflowFailException(" ".join(worked.failures))
        return states


class _ProgressLogger:
    """Logs the progress of a job every few seconds."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._logged_at = time.monotonic()

    def __call__(self, job: Job) -> None:
        """Log it, unless that was done a moment ago."""
        if time.monotonic() - self._logged_at > _REPORT_SECONDS:
            self._logged_at = time.monotonic()
            self._log.info("%s", job)
