"""The operator that alerts of gaps in a trigger's sequences, for every trigger type.

A Kafka trigger alerts after each attempt at a batch as well, and each alert is claimed once. But a gap also ages while
no message arrives.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from workorders.airflow.connections import database_url
from workorders.airflow.notifications import load_notifiers, notify_all
from workorders.airflow.task_errors import explain_failures, log_failure_wrapped
from workorders.core import triggers
from workorders.core.admission import gap_alerts
from workorders.core.exceptions import UnknownTriggerError
from workorders.core.postgres.connection import connect

if TYPE_CHECKING:
    from airflow.sdk import Context


class AlertSequenceGapsOperator(BaseOperator):
    """Sends the alerts that are due for the sequences of a trigger, each once, and fails if one opens.

    Args:
        trigger_name: name of the trigger.
        notify: import paths of notifiers.
        database_connection: Airflow connection of the work orders' database.
    """

    template_fields: Sequence[str] = ("trigger_name", "database_connection")
    ui_color = "#f6f0dc"

    def __init__(
        self,
        *,
        trigger_name: str,
        notify: Sequence[str] = (),
        database_connection: str = "workorders_db",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.trigger_name = trigger_name
        self.notify = tuple(notify)
        self.database_connection = database_connection

    @log_failure_wrapped
    def execute(self, context: "Context") -> None:
        """Check once.

        Raises:
            AirflowFailException: an alert was sent for a gap. It is not sent again, so there is no retry.
            TaskFailedError: the database failed; nothing was claimed.
        """
        notifiers = load_notifiers(self.notify, self.log)
        with (
            explain_failures(self, context, f"Trigger {self.trigger_name}", "No alert for a gap was sent or lost."),
            connect(
                database_url(self.database_connection), application_name="workorders gaps", autocommit=True
            ) as connection,
        ):
            try:
                due = gap_alerts.claim(connection, triggers.find(connection, self.trigger_name))
            except UnknownTriggerError:
                self.log.info("Trigger %s has had no event yet.", self.trigger_name)
                return
        # The connection is closed, so that a slow notifier holds no lock.
        notify_all(due, notifiers, context, self.log)
        opened = [alert for alert in due if not alert.cleared]
        if opened:
            more = f" {len(opened) - 1} more are in the log above." if len(opened) > 1 else ""
            raise AirflowFailException(opened[0].sentence + more)
