"""Sends the alerts that are due after an attempt: to the task's log, the metrics, and the trigger's notifiers."""

from collections.abc import Sequence

from airflow.sdk import Context
from airflow.sdk.observability.stats import Stats

from workorders.airflow.notifications import Log, load_notifiers, notify_all
from workorders.core import triggers
from workorders.core.exceptions import one_line
from workorders.core.postgres.connection import Connection
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ledger import stalls
from workorders.kafka.ledger.stalls import Alert

ALERTED = "workorders.stalls_alerted"
RESOLVED = "workorders.stalls_resolved"


def claim_alerts(definition: KafkaTriggerDefinition, database: Connection, log: Log) -> list[Alert]:
    """Return the alerts that are due of a trigger, and record that they are claimed. Never raises."""
    try:
        with database.transaction():
            trigger = triggers.find(database, definition.name)
            return stalls.claim_alerts(database, trigger, after_seconds=definition.alert_after)
    except Exception as error:  # noqa: BLE001 - most likely the database is unavailable, and the task fails by that
        log.warning("Whether an alert is due is not known: %s: %s", type(error).__name__, one_line(error))
        return []


def send_alerts(definition: KafkaTriggerDefinition, due: Sequence[Alert], context: Context, log: Log) -> None:
    """Log, count, and send alerts, when no lock is held: a notifier may be slow."""
    for alert in due:
        tags = {"trigger": alert.trigger, "topic": alert.topic, "partition": str(alert.partition)}
        Stats.incr(RESOLVED if alert.cleared else ALERTED, tags=tags)
    notify_all(due, load_notifiers(definition.notify, log), context, log)
