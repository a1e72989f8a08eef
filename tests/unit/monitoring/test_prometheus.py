"""The text that Prometheus reads."""

from prometheus_client.parser import text_string_to_metric_families

from workorders.core.metrics import Metric, Reading, Sample
from workorders.monitoring import prometheus
from workorders.monitoring.snapshot import readings

LAG = Metric("workorders.ingest.lag", "gauge", "{message}", "How far behind.")
AGE = Metric("workorders.ingest.oldest_age", "gauge", "s", "How long.")
MESSAGES = Metric("workorders.ingest.messages", "counter", "{message}", "How many.")
READINGS = (Reading(("trigger",), (LAG, AGE), "-"), Reading(("trigger", "outcome"), (MESSAGES,), "-"))


def test_names_have_their_unit_and_counters_a_total() -> None:
    assert [prometheus.prometheus_name(metric) for metric in (LAG, AGE, MESSAGES)] == [
        "workorders_ingest_lag",
        "workorders_ingest_oldest_age_seconds",
        "workorders_ingest_messages_total",
    ]


def test_hostile_labels_come_back_as_they_were() -> None:
    name = 'a"b\\c\nd{e="f"} 1'
    samples = [
        Sample(LAG, (("trigger", name),), 7.0),
        Sample(MESSAGES, (("trigger", "orders"), ("outcome", "created")), 3.0),
    ]
    text = prometheus.render(READINGS, samples).decode()
    read = {found.name: found for found in text_string_to_metric_families(text)}
    (lag,) = read["workorders_ingest_lag"].samples
    assert (lag.labels, lag.value) == ({"trigger": name}, 7.0)
    assert [found.name for found in read["workorders_ingest_messages"].samples] == ["workorders_ingest_messages_total"]


def test_no_two_metrics_have_one_name() -> None:
    names = [prometheus.prometheus_name(metric) for reading in readings() for metric in reading.metrics]
    assert sorted(set(names)) == sorted(names)
