"""Decides from samples whether each trigger polls, consumes, or is stuck: pure functions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from workorders.core.metrics import Sample

LAG: Final = "workorders.ingest.lag"
OLDEST_AGE: Final = "workorders.ingest.oldest_age"
NO_PROGRESS_AGE: Final = "workorders.ingest.no_progress_age"
POLL_AGE: Final = "workorders.ingest.poll_age"
STALLED: Final = "workorders.ingest.stalled"
SHARD_FAILED: Final = "workorders.outbox.shard.failed"
HOLDS: Final = "workorders.outbox.holds"

MAX_POLL_AGE_SECONDS: Final = 300.0
"""A listener looks every ten seconds. Between two of its runs, a scheduler may take a while."""
MAX_NO_PROGRESS_SECONDS: Final = 900.0
"""A batch of a slow Spark takes some minutes."""


class Liveness(StrEnum):
    """What a trigger does."""

    POLLING = "polling"
    """Its listener looks, and nothing waits."""
    CONSUMING = "consuming"
    """Messages wait, and become work orders."""
    STALLED = "stalled"
    """At least one partition is stalled: its last attempt failed, and is retried."""
    STUCK = "stuck"
    """Messages wait, none becomes a work order, and no partition is stalled."""
    NOT_POLLING = "not polling"
    """Its listener does not look: the Dag is paused, or no triggerer runs."""


@dataclass(frozen=True, slots=True)
class TriggerHealth:
    """What a trigger does, and its figures."""

    trigger: str
    liveness: Liveness
    lag: int | None
    """Offsets without a work order; None if the listener does not look."""
    oldest_age_seconds: float | None
    poll_age_seconds: float | None
    """None if the listener has never looked."""
    stalled_partitions: int


def trigger_health(samples: Iterable[Sample]) -> list[TriggerHealth]:
    """Return the health of each trigger that has a listener, by name."""
    figures: dict[str, dict[str, list[float]]] = {}
    for sample in samples:
        trigger = dict(sample.labels).get("trigger")
        if trigger is not None and sample.metric.name in TRIGGER_FIGURES:
            figures.setdefault(trigger, {}).setdefault(sample.metric.name, []).append(sample.value)
    return [_health(trigger, found) for trigger, found in sorted(figures.items())]


TRIGGER_FIGURES: Final = frozenset({LAG, OLDEST_AGE, NO_PROGRESS_AGE, POLL_AGE, STALLED})


def oldest_ages(samples: Iterable[Sample]) -> Mapping[str, float]:
    """Return the maximum age in seconds of the oldest message without a work order, by trigger; 0 if none waits.

    A trigger whose listener does not look is missing.
    """
    ages = {found.trigger: found.oldest_age_seconds for found in trigger_health(samples)}
    return {trigger: age for trigger, age in ages.items() if age is not None}


def _health(trigger: str, found: Mapping[str, Sequence[float]]) -> TriggerHealth:
    lags, ages, polls = found.get(LAG), found.get(OLDEST_AGE), found.get(POLL_AGE)
    stalled, no_progress = int(sum(found.get(STALLED, ()))), max(found.get(NO_PROGRESS_AGE, (0.0,)))
    poll_age = min(polls) if polls else None
    if stalled:
        liveness = Liveness.STALLED
    elif poll_age is None or poll_age > MAX_POLL_AGE_SECONDS:
        liveness = Liveness.NOT_POLLING
    elif no_progress > MAX_NO_PROGRESS_SECONDS:
        liveness = Liveness.STUCK
    else:
        liveness = Liveness.CONSUMING if lags and sum(lags) else Liveness.POLLING
    return TriggerHealth(
        trigger, liveness, int(sum(lags)) if lags else None, max(ages) if ages else None, poll_age, stalled
    )
