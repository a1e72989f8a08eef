"""What is wrong, and what each trigger does, from samples alone."""

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


def liveness(samples: list[Sample]) -> Liveness:
    (found,) = health.trigger_health(samples)
    return found.liveness


def test_a_listener_that_looks_at_an_empty_topic_polls() -> None:
    assert liveness(seen()) is Liveness.POLLING


def test_messages_that_become_work_orders_are_consumed() -> None:
    assert liveness(seen(lag=10, no_progress=60)) is Liveness.CONSUMING


def test_messages_that_do_not_become_work_orders_are_stuck() -> None:
    samples = seen(lag=10, no_progress=health.MAX_NO_PROGRESS_SECONDS + 1)
    assert liveness(samples) is Liveness.STUCK
    assert "Trigger orders is stuck" in health.problems(samples)[0]


def test_a_listener_that_does_not_look_is_named_whether_it_ever_looked_or_not() -> None:
    late = seen(poll_age=health.MAX_POLL_AGE_SECONDS + 1, lag=None)
    never = seen(poll_age=None, lag=None)
    assert liveness(late) is liveness(never) is Liveness.NOT_POLLING
    assert "not looked for 301 s" in health.problems(late)[0]
    assert "never looked" in health.problems(never)[0]


def test_a_stall_is_named_before_what_follows_from_it() -> None:
    samples = seen(lag=10, no_progress=10_000, stalled=2)
    assert liveness(samples) is Liveness.STALLED
    assert "2 partitions stalled" in health.problems(samples)[0]


def test_a_failed_shard_of_the_outbox_is_a_problem() -> None:
    shards = [sample(health.SHARD_FAILED, 0, shard="0"), sample(health.SHARD_FAILED, 1, shard="1")]
    (problem,) = health.problems(shards)
    assert "shard 1" in problem


def test_a_trigger_without_problems_has_none() -> None:
    assert health.problems(seen()) == []


def test_every_figure_that_health_reads_is_a_metric() -> None:
    names = {metric.name for metric in metrics()}
    read = {value for name, value in vars(health).items() if name.isupper() and str(value).startswith("workorders.")}
    assert read
    assert read <= names
