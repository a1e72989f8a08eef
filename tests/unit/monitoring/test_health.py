"""What each trigger does, from samples alone."""

import pytest

from workorders.core.metrics import Metric, Sample
from workorders.monitoring import health
from workorders.monitoring.health import Liveness
from workorders.monitoring.snapshot import metrics


def sample(name: str, value: float, **labels: str) -> Sample:
    return Sample(Metric(name, "gauge", "1", ""), tuple(labels.items()), value)


def seen(
    *, poll_age: float | None = 5.0, lag: float | None = 0.0, no_progress: float = 0.0, stalled: int = 0
) -> list[Sample]:
    """Return the samples of one trigger with one partition; None for what is not known."""
    place = {"trigger": "orders", "topic": "orders", "partition": "0"}
    found = [sample(health.STALLED, stalled, trigger="orders")]
    if poll_age is not None:
        found.append(sample(health.POLL_AGE, poll_age, trigger="orders"))
    if lag is not None:
        found += [sample(health.LAG, lag, **place), sample(health.NO_PROGRESS_AGE, no_progress, **place)]
    return found


@pytest.mark.parametrize(
    ("samples", "liveness"),
    [
        (seen(), Liveness.POLLING),
        (seen(lag=10, no_progress=60), Liveness.CONSUMING),
        (seen(lag=10, no_progress=health.MAX_NO_PROGRESS_SECONDS + 1), Liveness.STUCK),
        (seen(poll_age=health.MAX_POLL_AGE_SECONDS + 1, lag=None), Liveness.NOT_POLLING),
        (seen(poll_age=None, lag=None), Liveness.NOT_POLLING),
        # A stall is named before what follows from it.
        (seen(lag=10, no_progress=10_000, stalled=2), Liveness.STALLED),
    ],
)
def test_what_a_trigger_does_follows_from_its_metrics(samples: list[Sample], liveness: Liveness) -> None:
    (found,) = health.trigger_health(samples)
    assert found.liveness is liveness


def test_the_oldest_message_of_all_partitions_is_that_of_the_trigger_and_is_unknown_if_none_looks() -> None:
    places = [{"trigger": "orders", "topic": "orders", "partition": str(number)} for number in range(2)]
    looked = [sample(health.OLDEST_AGE, age, **place) for age, place in zip((30, 240), places, strict=True)]
    empty = sample(health.OLDEST_AGE, 0, trigger="visits", topic="visits", partition="0")
    blind = sample(health.POLL_AGE, 900, trigger="blind")
    assert health.oldest_ages([*looked, empty, blind]) == {"orders": 240, "visits": 0}


def test_every_figure_that_health_reads_is_a_metric() -> None:
    names = {metric.name for metric in metrics()}
    read = {value for name, value in vars(health).items() if name.isupper() and str(value).startswith("workorders.")}
    assert read
    assert read <= names
