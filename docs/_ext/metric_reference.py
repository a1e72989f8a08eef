"""Every metric that the packages announce, with its names, from the code itself."""

from workorders.core.metrics import readings
from workorders.monitoring.api import prometheus_name


def metric_reference() -> str:
    """Return a table of all metrics that are read from the database."""
    rows = [
        f"| `{metric.name}` | `{prometheus_name(metric)}` | {metric.kind} | {_unit(metric.unit)} | "
        f"{', '.join(reading.labels)} | {metric.meaning} |".replace("|  |", "| |")
        for reading in readings()
        for metric in reading.metrics
    ]
    return "\n".join(["| metric | in Prometheus | kind | unit | labels | value |", "| --- " * 6 + "|", *rows])


def _unit(unit: str) -> str:
    return unit.strip("{}").replace("_", " ")
