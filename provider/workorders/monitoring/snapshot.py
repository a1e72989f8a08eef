"""Reads all metrics that the packages announce."""

from collections.abc import Collection, Sequence
from functools import cache
from importlib.metadata import entry_points

from workorders.core.metrics import METRICS_GROUP, Reading, Sample, samples
from workorders.core.postgres.connection import Connection


@cache
def readings() -> tuple[Reading, ...]:
    """Return the readings of all packages, in the order of the packages' names."""
    points = sorted(entry_points(group=METRICS_GROUP), key=lambda point: point.name)
    return tuple(reading for point in points for reading in point.load())


def take(connection: Connection, names: Collection[str] | None = None) -> Sequence[Sample]:
    """Read all metrics, or those of some names and what comes with them, one short query after the other."""
    return [
        sample
        for reading in readings()
        if names is None or any(metric.name in names for metric in reading.metrics)
        for sample in samples(reading, connection.execute(reading.query).fetchall())
    ]
