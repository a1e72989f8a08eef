"""What a metric is, and a query that reads some: the part of monitoring that every package shares."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, LiteralString

METRICS_GROUP: Final = "workorders.metrics"
"""Entry points by which a package announces its metrics: each names a sequence of `Reading`."""


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


def samples(reading: Reading, rows: Iterable[Sequence[Any]]) -> Iterator[Sample]:
    """Give the values in the rows of a reading's query; NULL is no value."""
    count = len(reading.labels)
    for row in rows:
        labels = tuple(zip(reading.labels, map(str, row[:count]), strict=True))
        for metric, value in zip(reading.metrics, row[count:], strict=True):
            if value is not None:
                yield Sample(metric, labels, float(value))
