"""The operator that alerts of gaps in a trigger's sequences, whatever the type of the trigger.

A Kafka trigger says them after each attempt at a batch as well; of all who look, one gets an alert. But a gap grows old
while nothing arrives, and then nobody else looks.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from workorders.airflow.connections import database_url
from workorders.airflow.notifications import say, usable
from workorders.airflow.task_errors import explained, readable
from workorders.core import triggers
from workorders.core.admission import gap_alerts
from workorders.core.exceptions import UnknownTriggerError
from workorders.core.postgres.connection import connect

if TYPE_CHECKING:
    from airflow.sdk import Context


class WatchGapsOperator(BaseOperator):
    """Says the alerts that are due for the sequences of a trigger, each once, and fails when a gap is due.

    Args:
        trigger_name: whose sequences.
        notify: import paths of what is called with each alert.
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

    @readable
    def execute(self, context: "Context") -> None:
        """Look once.

        Raises:
            AirflowFailException: a gap is due; the sentence says which. It is said no more, so there is no retry.
            TaskFailedError: the database failed; nothing was claimed.
        """
        notifiers = usable(self.notify, self.log)
        with (
            explained(self, context, f"Trigger {self.trigger_name}", "No alert for a gap was said or lost."),
            connect(
                database_url(self.database_connection), application_name="workorders gaps", autocommit=True
            ) as connection,
        ):
            try:
                due = gap_alerts.claim(connection, triggers.find(connection, self.trigger_name))
            except UnknownTriggerError:
                self.log.info("Trigger %s has had no event yet.", self.trigger_name)
                return
        # The connection is closed: a notifier may take its time, and no lock is held meanwhile.
        say(due, notifiers, context, self.log)
        opened = [alert for alert in due if not alert.cleared]
        if opened:
            more = f" {len(opened) - 1} more stand above." if len(opened) > 1 else ""
            raise AirflowFailException(opened[0].sentence + more)
