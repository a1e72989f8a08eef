"""What `workorders status --check` finds wrong: a pure function."""

from collections.abc import Iterator, Sequence
from typing import Final

from workorders.core.metrics import Sample
from workorders.kafka.status.partition_status import PartitionRow, TriggerStatus
from workorders.monitoring import health
from workorders.monitoring.health import Liveness

_FINE: Final = ("up to date", "behind", "in batch", "not planned yet", "waiting for an open transaction", "?")
"""How a status begins that needs no one; a `?` is explained by the trigger's problem."""


def problems(
    triggers: Sequence[TriggerStatus],
    samples: Sequence[Sample],
    *,
    max_lag: int | None = None,
    max_age_seconds: float | None = None,
) -> list[str]:
    """Return one sentence for each thing that is wrong.

    Args:
        triggers: status of the triggers that are checked.
        samples: the metrics.
        max_lag: maximum lag of a partition, in offsets.
        max_age_seconds: maximum age of the oldest message without a work order.
    """
    healths = {found.trigger: found for found in health.trigger_health(samples)}
    found: list[str] = []
    for trigger in triggers:
        found += [f"Trigger {trigger.name}: {trigger.problem}"] if trigger.problem else []
        for row in trigger.partitions:
            found += [f"Trigger {trigger.name}: {sentence}" for sentence in _of_partition(row, max_lag)]
        if trigger.name in healths:
            own = [sample for sample in samples if dict(sample.labels).get("trigger") == trigger.name]
            # A stalled partition is named with its error above.
            if healths[trigger.name].liveness is not Liveness.STALLED:
                found += health.problems(own)
            age = healths[trigger.name].oldest_age_seconds
            if max_age_seconds is not None and age is not None and age > max_age_seconds:
                found.append(
                    f"Trigger {trigger.name}: a message has waited for up to {age:,.0f} s, more than "
                    f"{max_age_seconds:,.0f} s."
                )
    return found


def _of_partition(row: PartitionRow, max_lag: int | None) -> Iterator[str]:
    place = f"{row.topic} {row.partition}"
    if not row.status.startswith(_FINE):
        yield f"{place} is {row.status}."
    if max_lag is not None and row.lag is not None and row.lag > max_lag:
        yield f"{place} has a lag of {row.lag:,}, more than {max_lag:,}."
