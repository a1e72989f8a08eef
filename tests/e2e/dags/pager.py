"""A notifier beside the DAG files, which writes to the task's log."""

from workorders.kafka.alerts import Alert


def page(alert: Alert) -> None:
    """Say which partition the alert is about."""
    print(f"Paged for {alert.topic} {alert.partition}, cleared: {alert.cleared}.")
