"""Notifiers in the folder of the DAG files, which write to the task's log."""

from workorders.core.admission.gaps import GapAlert
from workorders.kafka.ledger.stalls import Alert


def page(alert: Alert) -> None:
    """Log which partition the alert is about."""
    print(f"Paged for {alert.topic} {alert.partition}, cleared: {alert.cleared}.")


def call(alert: GapAlert) -> None:
    """Log which trigger the alert is about."""
    print(f"Called for {alert.trigger} with {alert.parked} parked, cleared: {alert.cleared}.")
