"""Writes metrics in Prometheus' text format."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from workorders.core.metrics import Metric, Reading, Sample

_UNITS: Final = {"s": "seconds", "By": "bytes"}


def prometheus_name(metric: Metric) -> str:
    """Return the name of a metric's series, as OpenTelemetry's rules derive it.

    Dots become underscores; a unit of measure and, for a counter, `total` are appended.
    """
    total = "total" if metric.kind == "counter" else None
    return "_".join(filter(None, [metric.name.replace(".", "_"), _UNITS.get(metric.unit), total]))


def render(readings: Iterable[Reading], samples: Iterable[Sample]) -> bytes:
    """Return the text of all samples. A metric without a value has its head only."""
    return generate_latest(_Samples(readings, samples))


class _Samples(Collector):
    """The samples of one scrape, by metric; a registry of them alone."""

    def __init__(self, readings: Iterable[Reading], samples: Iterable[Sample]) -> None:
        self._families = {metric: _family(metric, reading.labels) for reading in readings for metric in reading.metrics}
        for sample in samples:
            self._families[sample.metric].add_metric([value for _, value in sample.labels], sample.value)

    def collect(self) -> Iterator[Family]:
        """Give what is written."""
        yield from self._families.values()


def _family(metric: Metric, labels: Sequence[str]) -> CounterMetricFamily | GaugeMetricFamily:
    family = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    return family(prometheus_name(metric), metric.meaning, labels=labels)
