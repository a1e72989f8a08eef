"""A notifier that remembers the alerts that it was called with."""

from typing import Any

alerts: list[Any] = []


def hear(alert: Any) -> None:
    """Remember an alert."""
    alerts.append(alert)
