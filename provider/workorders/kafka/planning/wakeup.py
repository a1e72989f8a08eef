"""Decides whether a listener should plan a batch: pure functions, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.partitions import Partition, Place, Position, error_at
from workorders.kafka.planning.range_planning import allowed_by_rate, deleted_partitions

LARGE_BACKLOG: Final = 1_000
"""Unread offsets that a growing batch takes without a rest."""
_REST: Final = 0.5
"""How long a batch rests for each batch that grows at the time, as a share of its last round."""
_APART_SECONDS: Final = 8.0
"""So many seconds after a round began, the rest after it is over."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Unread offsets of a trigger's free partitions."""

    offsets: int
    """Number of unread offsets; at least the number of messages, because some offsets are invisible."""
    mismatches: tuple[Partition, ...]
    """Partitions whose log and ledger do not match; they get a batch, whose failure people see."""
    stalls: tuple[Partition, ...] = ()
    """Free partitions whose stall has begun or ended, or is worth an alert: the planner records and sends that."""

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return self.offsets == 0 and not self.mismatches and not self.stalls


NOTHING: Final = Backlog(0, ())
"""The backlog of a trigger that has read everything."""


def needs_high_watermark(ends: Mapping[Partition, int], ledger: Mapping[Partition, Position]) -> list[Partition]:
    """Return the partitions whose last stable offset is below what is stored, so that their high watermark is needed.

    This is not yet a mismatch: reading may have begun inside a transaction that is still open, or a batch was ingested
    between the two questions.
    """
    return [
        position.partition
        for position in ledger.values()
        if not position.busy and ends.get(position.partition, position.log_end) < position.log_end
    ]


def backlog(
    ends: Mapping[Partition, int],
    ledger: Mapping[Partition, Position],
    high_watermarks: Mapping[Partition, int] = MappingProxyType({}),
) -> Backlog:
    """Compare the ends of the logs with the ledger. Partitions that it does not have are left to the next poll.

    Args:
        ends: last stable offset by partition, with the current topic ids.
        ledger: positions by partition, with the topic ids that were read.
        high_watermarks: of the partitions that `needs_high_watermark` names, asked after the ledger was read.
    """
    known = {position.partition.topic_partition: position for position in ledger.values()}
    offsets = 0
    mismatches: list[Partition] = []
    for partition, end in ends.items():
        position = known.get(partition.topic_partition)
        if position is None or position.busy:
            continue
        if position.partition.topic_id != partition.topic_id or high_watermarks.get(partition, end) < position.log_end:
            mismatches.append(partition)
        else:
            offsets += max(end - position.next_offset, 0)
    mismatches += [position.partition for position in deleted_partitions(ends, ledger)]
    return Backlog(offsets, tuple(mismatches))


def changed_stalls(
    errors: Mapping[Place, Exception],
    before: Mapping[Place, Exception],
    ledger: Mapping[Partition, Position],
    *,
    alert_after_seconds: float,
) -> tuple[Partition, ...]:
    """Return the free partitions whose stall has begun or ended, or is worth an alert.

    Args:
        errors: of the topics and partitions that Kafka cannot answer for now.
        before: the same some seconds ago; a stall begins with the second error, because a leader is soon elected.
        ledger: positions by partition.
        alert_after_seconds: seconds after which a stall is worth an alert.
    """

    def has_changed(position: Position) -> bool:
        error, seconds = error_at(errors, position.partition), position.stalled_seconds
        if seconds is None:
            return error is not None and error_at(before, position.partition) is not None
        return error is None or (seconds >= alert_after_seconds and not position.alerted)

    return tuple(partition for partition, position in ledger.items() if not position.busy and has_changed(position))


def should_plan(
    waiting: Backlog,
    definition: KafkaTriggerDefinition,
    *,
    waited_seconds: float,
    seconds_since_last_batch: float | None,
    is_open: bool = False,
) -> bool:
    """Return whether a batch should be planned now.

    While a batch of the trigger grows (`is_open`), free partitions are left to it.
    """
    if waiting.stalls:
        return True
    if waiting.empty:
        return False
    if is_open and not waiting.mismatches:
        return False
    enough = waiting.offsets >= definition.min_messages or waited_seconds >= definition.max_wait
    allowed = allowed_by_rate(definition.rate_limit_per_second, seconds_since_last_batch, definition.max_messages)
    return (bool(waiting.mismatches) or enough) and allowed >= 1


def rest_seconds(round_seconds: float, growing: int) -> float:
    """Return how long a growing batch rests after a round that took so many seconds.

    It rests longer the more batches grow, because many triggers share a machine. If each began the next round at once,
    they would keep all cores busy with ever smaller rounds, and tasks that start in between would take a minute.
    """
    return max(0.0, min(_REST * growing * round_seconds, _APART_SECONDS - round_seconds))
