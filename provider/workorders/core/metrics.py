"""Metrics of all packages, and the queries that read them, with their descriptions in the queries' comments."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final, Literal, LiteralString

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

METRICS_GROUP: Final = "workorders.metrics"
"""Entry points by which a package announces its metrics: each names a sequence of `Reading`."""

_LABELS = re.compile(r"^-- labels: (.+)$", re.MULTILINE)
_METRIC = re.compile(r"^-- (gauge|counter): (\S+), (\S+?)(, absent is 0)?\n((?:--   .*\n)+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, named by OpenTelemetry's conventions."""

    name: str
    kind: Literal["gauge", "counter"]
    """A counter never decreases, except when it begins again at 0."""
    unit: str
    """A unit of UCUM: `s`, or what is counted, in braces."""
    meaning: str
    absent_is_zero: bool = False
    """Whether labels that a query returns no longer mean 0, as for counts of what no longer exists."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A query without arguments. Its columns are the labels, and after them one value for each metric."""

    labels: tuple[str, ...]
    metrics: tuple[Metric, ...]
    query: LiteralString


@dataclass(frozen=True, slots=True)
class Sample:
    """The value of a metric for one set of labels, at the time of the query."""

    metric: Metric
    labels: tuple[tuple[str, str], ...]
    value: float


@cache
def readings() -> tuple[Reading, ...]:
    """Return the readings of all packages, in the order of the packages' names."""
    points = sorted(entry_points(group=METRICS_GROUP), key=lambda point: point.name)
    return tuple(reading for point in points for reading in point.load())


def take_samples(connection: Connection, names: Collection[str] | None = None) -> Sequence[Sample]:
    """Read all metrics, or those of some names and what comes with them, one short query after the other."""
    return [
        sample
        for reading in readings()
        if names is None or any(metric.name in names for metric in reading.metrics)
        for sample in _samples(reading, connection.execute(reading.query).fetchall())
    ]


def _samples(reading: Reading, rows: Iterable[Sequence[Any]]) -> Iterator[Sample]:
    """Give the values in the rows of a reading's query; NULL is no value."""
    count = len(reading.labels)
    for row in rows:
        labels = tuple(zip(reading.labels, map(str, row[:count]), strict=True))
        for metric, value in zip(reading.metrics, row[count:], strict=True):
            if value is not None:
                yield Sample(metric, labels, float(value))


def load_readings(package: str, file: str, *, blocks_from: str | None = None) -> tuple[Reading, ...]:
    """Return a reading for each query of `file` in `package`, in their order.

    A query begins with its labels, and with a line for each metric and another one for its meaning:

        -- labels: topic, kind
        -- gauge: workorders.outbox.holds, {hold}, absent is 0
        --   Holds of a topic, by kind: topic, key, or message.
    """
    readings = []
    for query in load_queries(package, file, blocks_from=blocks_from).values():
        labels = _LABELS.search(query)
        metrics = tuple(
            Metric(name, kind, unit, meaning.replace("\n--  ", "").removeprefix("--   ").strip(), bool(absent))
            for kind, name, unit, absent, meaning in _METRIC.findall(query)
        )
        if not metrics:
            raise ValueError(f"{package}/{file} has a query without a metric:\n{query}")
        readings.append(Reading(tuple(labels[1].split(", ")) if labels else (), metrics, query))
    return tuple(readings)
