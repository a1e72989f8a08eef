"""A notifier in the folder of the DAG files, which writes to the task's log."""

from workorders.kafka.ledger.stalls import Alert


def page(alert: Alert) -> None:
    """Log which partition the alert is about."""
    print(f"Paged for {alert.topic} {alert.partition}, cleared: {alert.cleared}.")
