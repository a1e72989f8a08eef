"""Operators that refresh the index of the history and delete what has expired."""

from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator

from workorders.airflow.connections import database_url
from workorders.airflow.task_errors import explain_failures, log_failure_wrapped
from workorders.core.maintenance import refresh, retention
from workorders.core.postgres.connection import connect

if TYPE_CHECKING:
    from airflow.sdk import Context


_UNDONE: Final = "The steps that were finished stay done, and the next run of this Dag does the rest."


class RefreshHistoryOperator(BaseOperator):
    """Adds new work orders to the full-text index, and counts work orders by state.

    Args:
        database_connection: Airflow connection of the work orders' database.
        seconds: time after which no further step begins; the next Dag run continues.
    """

    ui_color = "#e8f0e8"

    def __init__(self, *, database_connection: str = "workorders_db", seconds: float = 240.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.database_connection = database_connection
        self.seconds = seconds

    @log_failure_wrapped
    def execute(self, context: "Context") -> dict[str, Any]:
        """Do it and return the numbers.

        Raises:
            TaskFailedError: the database failed; what was done stays done.
        """
        with (
            explain_failures(self, context, "The refresh of the search index", _UNDONE),
            connect(database_url(self.database_connection), application_name="workorders refresh") as connection,
        ):
            done = refresh.refresh_history(connection, seconds=self.seconds)
        self.log.info(
            "%s work orders were added to the index, and %s were indexed again.",
            f"{done.filled:,}",
            f"{done.looked_again:,}",
        )
        return {"filled": done.filled, "looked_again": done.looked_again, "counted": done.counted}


class RetentionOperator(BaseOperator):
    """Wipes and deletes what has expired by the retention of each workflow.

    Args:
        database_connection: Airflow connection of the work orders' database.
    """

    ui_color = "#f0e8e8"

    def __init__(self, *, database_connection: str = "workorders_db", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.database_connection = database_connection

    @log_failure_wrapped
    def execute(self, context: "Context") -> dict[str, int]:
        """Do it and return the numbers.

        Raises:
            TaskFailedError: the database failed; what was done stays done.
        """
        with (
            explain_failures(self, context, "The retention of the history", _UNDONE),
            connect(database_url(self.database_connection), application_name="workorders retention") as connection,
        ):
            swept = retention.delete_expired(connection)
        self.log.info("%s work orders were deleted, and %s inputs wiped.", f"{swept.deleted:,}", f"{swept.wiped:,}")
        if swept.remainder:
            self.log.warning("%s", swept.remainder)
        return {"deleted": swept.deleted, "wiped": swept.wiped, "left": swept.left}
