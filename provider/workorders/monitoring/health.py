"""What the metrics tell about each Kafka trigger: pure functions."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from workorders.core.metrics import Sample

OLDEST_AGE: Final = "workorders.ingest.oldest_age"
NO_PROGRESS_AGE: Final = "workorders.ingest.no_progress_age"
POLL_AGE: Final = "workorders.ingest.poll_age"
STALLED: Final = "workorders.ingest.stalled"
TRIGGER_FIGURES: Final = frozenset({OLDEST_AGE, NO_PROGRESS_AGE, POLL_AGE, STALLED})


@dataclass(frozen=True, slots=True)
class TriggerHealth:
    """The figures of a trigger, of the worst of its partitions."""

    oldest_age_seconds: float | None
    """Of its oldest message without a work order; None if the listener does not look."""
    poll_age_seconds: float | None
    """None if the listener has never looked."""
    no_progress_seconds: float
    is_stalled: bool


def trigger_health(samples: Iterable[Sample]) -> dict[str, TriggerHealth]:
    """Return the health of each trigger that has a listener, by name."""
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        trigger = dict(sample.labels).get("trigger")
        if trigger is not None and sample.metric.name in TRIGGER_FIGURES:
            figures[trigger][sample.metric.name].append(sample.value)
    return {
        trigger: TriggerHealth(
            oldest_age_seconds=max(found[OLDEST_AGE], default=None),
            poll_age_seconds=min(found[POLL_AGE], default=None),
            no_progress_seconds=max(found[NO_PROGRESS_AGE], default=0.0),
            is_stalled=any(found[STALLED]),
        )
        for trigger, found in figures.items()
    }


def oldest_ages(samples: Iterable[Sample]) -> Mapping[str, float]:
    """Return the maximum age in seconds of the oldest message without a work order, by trigger; 0 if none waits.

    A trigger whose listener does not look is missing.
    """
    ages = {trigger: found.oldest_age_seconds for trigger, found in trigger_health(samples).items()}
    return {trigger: age for trigger, age in ages.items() if age is not None}
