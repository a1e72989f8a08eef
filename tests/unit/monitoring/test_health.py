"""What is known of each trigger from samples alone."""

from workorders.core.metrics import Metric, Sample
from workorders.monitoring import health
from workorders.monitoring.snapshot import readings


def sample(name: str, value: float, **labels: str) -> Sample:
    return Sample(Metric(name, "gauge", "1", ""), tuple(labels.items()), value)


def test_the_oldest_message_of_all_partitions_is_that_of_the_trigger_and_is_unknown_if_none_looks() -> None:
    places = [{"trigger": "orders", "topic": "orders", "partition": str(number)} for number in range(2)]
    looked = [sample(health.OLDEST_AGE, age, **place) for age, place in zip((30, 240), places, strict=True)]
    empty = sample(health.OLDEST_AGE, 0, trigger="visits", topic="visits", partition="0")
    blind = sample(health.POLL_AGE, 900, trigger="blind")
    assert health.oldest_ages([*looked, empty, blind]) == {"orders": 240, "visits": 0}


def test_every_figure_that_health_reads_is_a_metric() -> None:
    names = {metric.name for reading in readings() for metric in reading.metrics}
    read = {value for name, value in vars(health).items() if name.isupper() and str(value).startswith("workorders.")}
    assert read
    assert read <= names
