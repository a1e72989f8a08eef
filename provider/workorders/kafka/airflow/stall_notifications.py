"""Sends the alerts that are due after an attempt: to the task's log, the metrics, and the trigger's notifiers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow.sdk.observability.stats import Stats

from workorders.airflow.connections import database_url
from workorders.airflow.notifications import Log, load_notifiers, notify_all
from workorders.core import triggers
from workorders.core.admission import gap_alerts
from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import connect
from workorders.kafka.ledger import stall_alerts
from workorders.kafka.ledger.stall_alerts import Alert

if TYPE_CHECKING:
    from airflow.sdk import Context

ALERTED = "workorders.stalls_alerted"
RESOLVED = "workorders.stalls_resolved"


@dataclass(frozen=True, slots=True)
class Alerting:
    """When a stall is worth an alert, and which notifiers get it."""

    after_seconds: float
    notify: Sequence[str]
    """Import paths of notifiers."""

    def after_attempt(self, database_connection: str, trigger_name: str, context: "Context", log: Log) -> None:
        """Check all partitions of the trigger, and send what is due. Never raises."""
        try:
            self._send_due(database_connection, trigger_name, context, log)
        except Exception as error:  # noqa: BLE001 - most likely the database is unavailable, and the task fails by that
            log.warning("Whether an alert is due is not known: %s: %s", type(error).__name__, one_line(error))

    def _send_due(self, database_connection: str, trigger_name: str, context: "Context", log: Log) -> None:
        notifiers = load_notifiers(self.notify, log)
        url = database_url(database_connection)
        with connect(url, autocommit=True, application_name="workorders alerts") as database:
            trigger = triggers.find(database, trigger_name)
            due = stall_alerts.claim(database, trigger, after_seconds=self.after_seconds)
            gaps = gap_alerts.claim(database, trigger)
        # The connection is closed, so that a slow notifier holds no lock.
        _count(trigger.name, due)
        notify_all([*due, *gaps], notifiers, context, log)


def _count(trigger: str, due: Sequence[Alert]) -> None:
    for alert in due:
        tags = {"trigger": trigger, "topic": alert.topic, "partition": str(alert.partition)}
        Stats.incr(RESOLVED if alert.cleared else ALERTED, tags=tags)
