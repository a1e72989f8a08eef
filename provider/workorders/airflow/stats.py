"""Sends metrics to Airflow's stats: StatsD, OpenTelemetry, or Datadog, as Airflow is configured.

A deferred task does so, because the triggerer lives on where a task would end.
"""

import time
from collections.abc import Iterable
from typing import Any, Final

from airflow.sdk import conf
from airflow.sdk.observability.stats import Stats, normalize_name_for_stats

from workorders.airflow.triggers.polling import PollingTrigger, TriggererDatabase
from workorders.core.environment import DATABASE_CONNECTION
from workorders.core.metrics import Metric, Sample, take_samples

REPORT_SECONDS: Final = 15.0
_DAG_RUN_SECONDS: Final = 3600.0
_Series = tuple[Metric, tuple[tuple[str, str], ...]]


class StatsReporter:
    """Sends samples, and remembers what it sent: the totals of counters, and gauges that have to return to 0."""

    def __init__(self) -> None:
        self._totals: dict[_Series, float] = {}
        self._gauges: set[_Series] = set()

    def report(self, sent: Iterable[Sample]) -> None:
        """Send all samples of a database. A counter is sent as what was added since the last call."""
        found = list(sent)
        gauges = {(sample.metric, sample.labels) for sample in found if sample.metric.kind == "gauge"}
        for sample in found:
            series = sample.metric, sample.labels
            name, tags = _name_and_tags(series)
            if sample.metric.kind == "gauge":
                Stats.gauge(name, sample.value, tags=tags)
                continue
            added = sample.value - self._totals.get(series, sample.value)
            self._totals[series] = sample.value
            if added > 0:
                Stats.incr(name, int(added), tags=tags)
        for series in self._gauges - gauges:
            if series[0].absent_is_zero:
                name, tags = _name_and_tags(series)
                Stats.gauge(name, 0, tags=tags)
        self._gauges = gauges


reporter: Final = StatsReporter()
"""That of this process. A counter's first total is where it begins, so a new reporter would lose what was added."""


def _name_and_tags(series: _Series) -> tuple[str, dict[str, str]]:
    """Return the name and the tags of a series; for plain StatsD, which has no tags, all of it as a name."""
    metric, labels = series
    with_tags = ("statsd_influxdb_enabled", "statsd_datadog_enabled")
    is_plain = conf.getboolean("metrics", "statsd_on", fallback=False) and not any(
        conf.getboolean("metrics", name, fallback=False) for name in with_tags
    )
    if not is_plain:
        return metric.name, dict(labels)
    values = (normalize_name_for_stats(value.replace(".", "_"), log_warning=False) for _, value in labels)
    return ".".join([metric.name, *values]), {}


class ReportMetricsTrigger(PollingTrigger):
    """Sends all metrics every 15 s, and ends after an hour, so that the Dag run ends."""

    def __init__(self, *, database_connection: str = DATABASE_CONNECTION, **_from_another_version: Any) -> None:
        super().__init__(
            subject="Metrics",
            waiting_for=f"the next report of the metrics, every {REPORT_SECONDS:g} s",
            poll_interval=REPORT_SECONDS,
            # An outage of the database may last beyond the hour.
            idle_after=2 * _DAG_RUN_SECONDS,
        )
        self.database_connection = database_connection
        self._ends_at = time.monotonic() + _DAG_RUN_SECONDS

    async def probe(self, database: TriggererDatabase) -> str | None:
        """Send all metrics."""
        reporter.report(await database.run(take_samples))
        return "The next run of this Dag continues." if time.monotonic() > self._ends_at else None
