"""How samples reach Airflow's stats."""

from collections.abc import Iterator
from typing import Any

import pytest
from airflow.sdk.observability import stats

from workorders.airflow.stats import StatsReporter
from workorders.core.metrics import Metric, Sample

LAG = Metric("workorders.ingest.lag", "gauge", "{message}", "")
HOLDS = Metric("workorders.outbox.holds", "gauge", "{hold}", "", absent_is_zero=True)
SENT = Metric("workorders.outbox.messages", "counter", "{message}", "")
ORDERS = (("trigger", "orders.v1"), ("partition", "0"))


class Backend:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, float, dict[str, str]]] = []

    def gauge(self, stat: str, value: float, tags: dict[str, str] | None = None, **_: Any) -> None:
        self.sent.append((stat, value, tags or {}))

    def incr(self, stat: str, count: int = 1, tags: dict[str, str] | None = None, **_: Any) -> None:
        self.sent.append((stat, count, tags or {}))


@pytest.fixture
def backend() -> Iterator[Backend]:
    made = Backend()
    stats.initialize(factory=lambda: made, export_legacy_names=False)  # type: ignore[arg-type, return-value]
    yield made
    stats.initialize(factory=Backend, export_legacy_names=False)  # type: ignore[arg-type]


def test_a_gauge_has_its_labels_as_tags(backend: Backend) -> None:
    StatsReporter().report([Sample(LAG, ORDERS, 7.0)])
    assert backend.sent == [("workorders.ingest.lag", 7.0, {"trigger": "orders.v1", "partition": "0"})]


def test_plain_statsd_gets_the_labels_in_the_name(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    StatsReporter().report([Sample(LAG, ORDERS, 7.0)])
    assert backend.sent == [("workorders.ingest.lag.orders_v1.0", 7.0, {})]
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_DATADOG_ENABLED", "True")
    StatsReporter().report([Sample(LAG, ORDERS, 7.0)])
    assert backend.sent[1][0] == "workorders.ingest.lag"


def test_a_counter_is_sent_as_what_was_added(backend: Backend) -> None:
    reporter = StatsReporter()
    for total in (100.0, 100.0, 130.0, 5.0, 8.0):
        reporter.report([Sample(SENT, (), total)])
    assert [count for _, count, _ in backend.sent] == [30, 3]


def test_what_no_longer_exists_returns_to_zero_once_if_it_is_a_count(backend: Backend) -> None:
    reporter = StatsReporter()
    reporter.report([Sample(HOLDS, (("topic", "a"),), 2.0), Sample(LAG, ORDERS, 7.0)])
    reporter.report([])
    reporter.report([])
    assert backend.sent[2:] == [("workorders.outbox.holds", 0, {"topic": "a"})]
