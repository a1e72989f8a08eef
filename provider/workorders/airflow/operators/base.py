"""What operators have in common: the base of those of the maintenance Dag, and the user."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator

from workorders.airflow.connections import database_url
from workorders.airflow.task_errors import explain_failures, log_failure_wrapped
from workorders.core.postgres.connection import Connection, connect, within_answer_seconds

if TYPE_CHECKING:
    from airflow.sdk import Context


UNKNOWN_USER: Final = "unknown user"
"""The user where Airflow runs without users."""


def triggering_user(context: "Context") -> str:
    """Return the name of the user who triggered the Dag run, by a form or otherwise."""
    return context["dag_run"].triggering_user_name or UNKNOWN_USER


class MaintenanceOperator(BaseOperator):
    """Base of the operators that do a duty of the maintenance, in one connection to the work orders' database.

    Args:
        database_connection: Airflow connection of the work orders' database.
    """

    where: str
    """The object of the sentence about a failure."""
    undone = "What was done stays done."
    """A sentence about what was done and what was not."""

    def __init__(self, *, database_connection: str = "workorders_db", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.database_connection = database_connection

    @log_failure_wrapped
    def execute(self, context: "Context") -> dict[str, Any]:
        """Do the work and return its results.

        Raises:
            TaskFailedError: the database failed; what was done stays done.
        """
        with (
            explain_failures(self, context, self.where, self.undone, again="The next Dag run continues."),
            connect(
                database_url(self.database_connection),
                application_name=f"workorders {self.task_id}",
                may_wait=within_answer_seconds,
            ) as connection,
        ):
            return self.work(connection, context)

    @abstractmethod
    def work(self, connection: Connection, context: "Context") -> dict[str, Any]:
        """Do the work and return its results."""
