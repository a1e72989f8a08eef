"""The operator that alerts of gaps in sequences, of triggers of every type.

A Kafka trigger alerts after each attempt at a batch as well, and each alert is claimed once. But a gap also ages while
no message arrives.
"""

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from workorders.airflow.notifications import load_notifiers, notify_all
from workorders.airflow.operators.base import MaintenanceOperator
from workorders.core import triggers
from workorders.core.admission import gap_alerts
from workorders.core.postgres.connection import Connection

if TYPE_CHECKING:
    from airflow.sdk import Context


class AlertSequenceGapsOperator(MaintenanceOperator):
    """Sends the alerts that are due for the sequences of every trigger, each once, and fails if one opens.

    Args:
        database_connection: Airflow connection of the work orders' database.
    """

    ui_color = "#f6f0dc"
    where = "The check of sequences for gaps"
    undone = "No alert for a gap was lost."

    def work(self, connection: Connection, context: "Context") -> dict[str, Any]:
        """Check once, and return the number of alerts.

        Raises:
            AirflowFailException: an alert was sent for a gap. It is not sent again, so there is no retry.
        """
        alerts = opened = 0
        first = ""
        for name, notify in gap_alerts.list_watched(connection):
            notifiers = load_notifiers(notify, self.log)
            due = gap_alerts.claim(connection, triggers.find(connection, name))
            # A slow notifier must hold no lock.
            connection.commit()
            notify_all(due, notifiers, context, self.log)
            sentences = [alert.sentence for alert in due if not alert.cleared]
            alerts, opened, first = alerts + len(due), opened + len(sentences), first or "".join(sentences[:1])
        if opened:
            more = f" {opened - 1} more are in the log above." if opened > 1 else ""
            raise AirflowFailException(first + more)
        return {"alerts": alerts}
