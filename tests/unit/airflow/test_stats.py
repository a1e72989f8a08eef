"""How samples reach Airflow's stats, and from there an endpoint of StatsD or OpenTelemetry."""

import atexit
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from airflow._shared.module_loading import import_string
from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider

from local_stack.ports import LOOPBACK
from support.otlp_collector import OtlpCollector
from workorders.airflow.stats import ReportMetricsTrigger, StatsReporter
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


class StatsdServer:
    """Receives what is sent by UDP."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((LOOPBACK, 0))
        self.socket.settimeout(30)

    def received(self, count: int) -> list[str]:
        """Wait for this number of datagrams, and return them."""
        return [self.socket.recv(65_536).decode() for _ in range(count)]


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[StatsdServer]:
    """A server, to which Airflow is set to send."""
    server = StatsdServer()
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", LOOPBACK)
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(server.socket.getsockname()[1]))
    yield server
    server.socket.close()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpCollector]:
    """A collector, to which Airflow is set to send."""
    # Airflow sends once more when the process ends, and the collector has ended by then.
    monkeypatch.setattr(atexit, "register", lambda *_: None)
    with OtlpCollector() as running:
        monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        yield running


@pytest.fixture
def airflows_own() -> Iterator[StatsReporter]:
    """A reporter in a process whose stats Airflow has initialized by its settings, as the triggerer does."""
    stats.initialize(
        factory=stats_utils.get_stats_factory(), export_legacy_names=conf.getboolean("metrics", "legacy_names_on")
    )
    yield StatsReporter()
    stats.initialize(factory=Backend, export_legacy_names=False)  # type: ignore[arg-type]


def report_twice(reporter: StatsReporter) -> None:
    """Report a gauge and the total of a counter, and both again, when 30 were added."""
    for total in (100.0, 130.0):
        reporter.report([Sample(LAG, ORDERS, 7.0), Sample(SENT, ORDERS, total)])


def test_a_server_of_plain_statsd_gets_the_labels_in_the_name(
    statsd: StatsdServer, airflows_own: StatsReporter
) -> None:
    report_twice(airflows_own)
    assert statsd.received(3) == [
        *["airflow.workorders.ingest.lag.orders_v1.0:7.0|g"] * 2,
        "airflow.workorders.outbox.messages.orders_v1.0:30|c",
    ]


def test_a_collector_of_open_telemetry_gets_gauges_and_what_was_added_to_counters_with_their_tags(
    collector: OtlpCollector, airflows_own: StatsReporter
) -> None:
    report_twice(airflows_own)
    provider = metrics.get_meter_provider()
    assert isinstance(provider, MeterProvider)
    provider.shutdown()  # sends what it has
    assert (7.0, dict(ORDERS)) in collector.values("airflow.workorders.ingest.lag")
    assert (30.0, dict(ORDERS)) in collector.values("airflow.workorders.outbox.messages")


def test_the_trigger_can_be_created_from_what_it_serializes_and_by_another_version() -> None:
    path, arguments = ReportMetricsTrigger(database_connection="other").serialize()
    assert arguments == {"database_connection": "other"}
    again = import_string(path)(**json.loads(json.dumps(arguments)), of_a_later_version=1)
    assert again.serialize() == (path, arguments)
