"""The operator that alerts of gaps in a trigger's sequences, for every trigger type.

A Kafka trigger alerts after each attempt at a batch as well, and each alert is claimed once. But a gap also ages while
no message arrives.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from workorders.airflow.notifications import load_notifiers, notify_all
from workorders.airflow.operators.base import DatabaseOperator
from workorders.core import triggers
from workorders.core.admission import gap_alerts
from workorders.core.admission.gap_alerts import GapAlert
from workorders.core.exceptions import UnknownTriggerError
from workorders.core.postgres.connection import Connection

if TYPE_CHECKING:
    from airflow.sdk import Context


class AlertSequenceGapsOperator(DatabaseOperator):
    """Sends the alerts that are due for the sequences of a trigger, each once, and fails if one opens.

    Args:
        trigger_name: name of the trigger.
        notify: import paths of notifiers.
        database_connection: Airflow connection of the work orders' database.
    """

    template_fields: Sequence[str] = ("trigger_name", "database_connection")
    ui_color = "#f6f0dc"
    undone = "No alert for a gap was sent or lost."

    def __init__(self, *, trigger_name: str, notify: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.trigger_name = trigger_name
        self.notify = tuple(notify)

    def execute(self, context: "Context") -> dict[str, Any]:
        """Check once, and return the number of alerts.

        Raises:
            AirflowFailException: an alert was sent for a gap. It is not sent again, so there is no retry.
            TaskFailedError: the database failed; nothing was claimed.
        """
        notifiers = load_notifiers(self.notify, self.log)
        self.where = f"Trigger {self.trigger_name}"
        due: list[GapAlert] = super().execute(context)["due"]
        # The connection is closed, so that a slow notifier holds no lock.
        notify_all(due, notifiers, context, self.log)
        opened = [alert for alert in due if not alert.cleared]
        if opened:
            more = f" {len(opened) - 1} more are in the log above." if len(opened) > 1 else ""
            raise AirflowFailException(opened[0].sentence + more)
        return {"alerts": len(due)}

    def work(self, connection: Connection, context: "Context") -> dict[str, Any]:
        """Claim the alerts that are due."""
        try:
            return {"due": gap_alerts.claim(connection, triggers.find(connection, self.trigger_name))}
        except UnknownTriggerError:
            self.log.info("Trigger %s has had no event yet.", self.trigger_name)
            return {"due": []}
