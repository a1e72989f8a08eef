"""Sends samples to Airflow's stats: StatsD, OpenTelemetry, or Datadog, as Airflow is configured."""

from collections.abc import Iterable
from typing import Final

from airflow.sdk import conf
from airflow.sdk.observability.stats import Stats, normalize_name_for_stats

from workorders.core.metrics import Metric, Sample

_Series = tuple[Metric, tuple[tuple[str, str], ...]]


class StatsReporter:
    """Sends samples, and remembers what it sent: the totals of counters, and gauges that have to return to 0."""

    def __init__(self) -> None:
        self._totals: dict[_Series, float] = {}
        self._gauges: set[_Series] = set()

    def report(self, samples: Iterable[Sample]) -> None:
        """Send all samples of a database. A counter is sent as what was added since the last call."""
        found = list(samples)
        gauges = {(sample.metric, sample.labels) for sample in found if sample.metric.kind == "gauge"}
        for sample in found:
            series = sample.metric, sample.labels
            if sample.metric.kind == "gauge":
                _gauge(series, sample.value)
                continue
            added = sample.value - self._totals.get(series, sample.value)
            self._totals[series] = sample.value
            if added > 0:
                _incr(series, int(added))
        for series in self._gauges - gauges:
            if series[0].absent_is_zero:
                _gauge(series, 0)
        self._gauges = gauges


reporter: Final = StatsReporter()
"""That of this process. A counter's first total is where it begins, so a new reporter would lose what was added."""


def _gauge(series: _Series, value: float) -> None:
    name, tags = _name_and_tags(series)
    Stats.gauge(name, value, tags=tags)


def _incr(series: _Series, count: int) -> None:
    name, tags = _name_and_tags(series)
    Stats.incr(name, count, tags=tags)


def _name_and_tags(series: _Series) -> tuple[str, dict[str, str]]:
    """Return the name and the tags of a series; for plain StatsD, which has no tags, all of it as a name."""
    metric, labels = series
    if not _lacks_tags():
        return metric.name, dict(labels)
    values = (normalize_name_for_stats(value.replace(".", "_"), log_warning=False) for _, value in labels)
    return ".".join([metric.name, *values]), {}


def _lacks_tags() -> bool:
    with_tags = ("statsd_influxdb_enabled", "statsd_datadog_enabled")
    return conf.getboolean("metrics", "statsd_on", fallback=False) and not any(
        conf.getboolean("metrics", name, fallback=False) for name in with_tags
    )
