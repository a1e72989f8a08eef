"""What an operator may decide where Kafka lost data, and what follows from it: pure functions, no I/O."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from workorders.kafka.exceptions import DecisionRefusedError
from workorders.kafka.partitions import OffsetRange, Partition, PartitionOffsets


class Kind(StrEnum):
    """What can be decided."""

    RESUME = "resume"
    """Go on at the first offset that Kafka still has, or at the log's end when it was cut short."""
    ACCEPT_TOPIC = "accept-topic"
    """Follow the topic that was made again under the name."""
    START_OVER = "start-over"
    """Go on from an offset, forward or back."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a partition stands when an operator looks: the ledger, the batch that holds it, and Kafka."""

    trigger: str
    partition: Partition
    """With the topic id that the ledger follows."""
    next_offset: int
    start_offset: int
    """Where reading of this log began."""
    generation: int
    """Number of the decision since which the log is another one under the same topic id; 0 for none."""
    topic_id_now: str | None
    """Id of the topic that has the name now; None when there is none."""
    log: PartitionOffsets | None
    """The partition's ends now; None when Kafka does not have the partition."""
    held: OffsetRange | None = None
    """The unfinished range that holds the partition."""
    batch_id: int | None = None
    """The batch of that range."""

    @property
    def place(self) -> str:
        """Return the partition as people see it."""
        return f"{self.partition.topic} {self.partition.partition}"

    @property
    def wanted_end(self) -> int:
        """Return the end of what the ledger and the range that holds the partition know of."""
        return self.next_offset if self.held is None else max(self.next_offset, self.held.end)


@dataclass(frozen=True, slots=True)
class Decision:
    """What will be done to one partition."""

    kind: Kind
    standing: Standing
    to: Partition
    to_offset: int
    effect: str
    """What it gives up or repeats, in words."""
    lost: tuple[int, int] | None = None
    """Offsets `[start, end)` of the log so far that have no work order and will get none; None when none are known."""
    another_log: bool = False
    """Whether the offsets from here on mean other messages than before, although the topic's id is the same."""

    @property
    def goes_back(self) -> bool:
        """Whether the ledger goes back within its log, so that the consumer group must go first."""
        return self.to == self.standing.partition and self.to_offset < self.standing.next_offset

    def __str__(self) -> str:
        """Return one sentence: from where to where, what is lost, what is superseded."""
        standing = self.standing
        topic = "" if self.to == standing.partition else " of the new topic"
        parts = [
            f"{standing.trigger}: {standing.place}: {self.kind}: "
            f"the ledger goes from {standing.next_offset} to {self.to_offset}{topic}",
            self.effect,
        ]
        if standing.held is not None:
            held = f"[{standing.held.start}, {standing.held.end})"
            parts.append(f"range {held} of batch {standing.batch_id} is superseded")
        return "; ".join(parts) + "."


def command(kind: Kind, trigger: str, partition: Partition) -> str:
    """Return the line to type for a decision on a partition."""
    words = ["workorders", "resolve", kind.value, trigger, partition.topic, "--partition", str(partition.partition)]
    return shlex.join(words)


def called_for(standing: Standing) -> Kind | None:
    """Return the decision without which the partition cannot go on; None when it can."""
    if standing.topic_id_now is None:
        return Kind.RESUME if standing.held is not None else None
    if standing.topic_id_now != standing.partition.topic_id:
        return Kind.ACCEPT_TOPIC
    log = standing.log
    if log is not None and (log.log_start > standing.next_offset or log.high_watermark < standing.wanted_end):
        return Kind.RESUME
    return None


def decide(kind: Kind, standing: Standing, offset: int | None = None) -> Decision:
    """Return what a decision of this kind means for a partition.

    Args:
        kind: what the operator chose.
        standing: where the partition stands.
        offset: where to go on: needed to start over; else in place of the first offset of a new topic, or of the end of
            a log that was cut short.

    Raises:
        DecisionRefusedError: it does not fit, and what would.
    """
    return _DECIDERS[kind](standing, offset)


def _resume(standing: Standing, offset: int | None) -> Decision:
    start = standing.next_offset
    if standing.topic_id_now not in {None, standing.partition.topic_id}:
        raise _refused(standing, "its topic was made again", Kind.ACCEPT_TOPIC)
    log = standing.log
    if log is None:
        if standing.topic_id_now is not None:
            raise _refused(standing, "Kafka has its topic, and says nothing of this partition now")
        if standing.held is None:
            raise _refused(standing, "Kafka does not have it any more, and nothing of it is planned")
        _require_none(standing, offset)
        lost = (start, standing.held.end)
        return Decision(
            Kind.RESUME, standing, standing.partition, standing.held.end, f"{_lost(lost)}, with their topic", lost
        )
    if log.high_watermark < start:
        return _resume_after_a_cut(standing, log, offset)
    _require_none(standing, offset)
    if log.log_start > start:
        lost = (start, log.log_start)
        effect = f"{_lost(lost)}: they were deleted by retention before they were read"
        return Decision(Kind.RESUME, standing, standing.partition, log.log_start, effect, lost)
    if log.high_watermark < standing.wanted_end:
        lost = (log.high_watermark, standing.wanted_end)
        effect = (
            f"{_lost(lost)}: the log was cut short before they were read; what it has before, and what is written "
            f"from there on, is read"
        )
        return Decision(Kind.RESUME, standing, standing.partition, start, effect, lost)
    raise _refused(
        standing, f"Kafka has everything from offset {start} on, so there is no gap to resume after", Kind.START_OVER
    )


def _resume_after_a_cut(standing: Standing, log: PartitionOffsets, offset: int | None) -> Decision:
    """Go on where the log ends now; what comes there has offsets that had other messages, and work orders, before."""
    target = log.high_watermark if offset is None else offset
    _require_in_log(standing, log, target)
    effect = (
        f"the log was cut short behind its offset {log.high_watermark}, where work orders are up to "
        f"{standing.next_offset}; they stay, and every message from {target} on is a new one"
    )
    if log.log_start < target:
        effect += f"; what was written before {target} since the cut is not read"
    return Decision(Kind.RESUME, standing, standing.partition, target, effect, another_log=True)


def _accept_topic(standing: Standing, offset: int | None) -> Decision:
    if standing.topic_id_now is None:
        raise _refused(standing, "there is no topic of that name to accept")
    if standing.topic_id_now == standing.partition.topic_id:
        raise _refused(standing, "it is the topic that the ledger follows, so there is no other one to accept")
    to = Partition(standing.partition.topic, standing.partition.partition, standing.topic_id_now)
    unread = (
        f"what the old topic held from offset {standing.next_offset} on and was not read is lost, and how much that is "
        f"nobody knows; work orders of the old topic stay"
    )
    if standing.log is None:
        _require_none(standing, offset)
        return Decision(
            Kind.ACCEPT_TOPIC,
            standing,
            to,
            0,
            f"{unread}; the new topic does not have this partition, which is read from its first offset if it is added",
        )
    target = standing.log.log_start if offset is None else offset
    _require_in_log(standing, standing.log, target)
    skipped = target - standing.log.log_start
    if skipped:
        unread += f"; offsets [{standing.log.log_start}, {target}) of the new topic ({skipped:,}) are skipped"
    return Decision(Kind.ACCEPT_TOPIC, standing, to, target, unread)


def _start_over(standing: Standing, offset: int | None) -> Decision:
    if standing.topic_id_now is not None and standing.topic_id_now != standing.partition.topic_id:
        raise _refused(standing, "its topic was made again", Kind.ACCEPT_TOPIC)
    if standing.log is None:
        raise _refused(standing, "Kafka does not have it now")
    if offset is None:
        raise _refused(standing, "an offset is needed to start over from")
    if standing.log.high_watermark < standing.next_offset:
        raise _refused(standing, "its log was cut short behind the ledger", Kind.RESUME)
    _require_in_log(standing, standing.log, offset)
    if standing.generation and offset < standing.start_offset:
        raise _refused(
            standing,
            f"reading of this log began at offset {standing.start_offset}, by decision {standing.generation}; what "
            f"lies before it has work orders from before the log was cut, and they would be doubled",
        )
    start = standing.next_offset
    if offset > start:
        effect = f"{_lost((start, offset))}: they are skipped"
        return Decision(Kind.START_OVER, standing, standing.partition, offset, effect, (start, offset))
    if offset == start:
        effect = "nothing is skipped and nothing is read again"
        return Decision(Kind.START_OVER, standing, standing.partition, offset, effect)
    effect = (
        f"offsets [{offset}, {start}) ({start - offset:,}) are read again: messages that have a work order keep it, "
        f"and the others get one"
    )
    return Decision(Kind.START_OVER, standing, standing.partition, offset, effect)


def _lost(offsets: tuple[int, int]) -> str:
    start, end = offsets
    return f"offsets [{start}, {end}) ({end - start:,}) get no work order"


def _require_none(standing: Standing, offset: int | None) -> None:
    if offset is not None:
        raise _refused(standing, "where it goes on follows from what Kafka has, so no offset is taken here")


def _require_in_log(standing: Standing, log: PartitionOffsets, offset: int) -> None:
    if not log.log_start <= offset <= log.high_watermark:
        raise _refused(
            standing, f"offset {offset} is not in the log, which is [{log.log_start}, {log.high_watermark}) now"
        )


def _refused(standing: Standing, reason: str, instead: Kind | None = None) -> DecisionRefusedError:
    hint = "" if instead is None else f"; see `{command(instead, standing.trigger, standing.partition)}`"
    return DecisionRefusedError(f"{standing.trigger}: {standing.place}: {reason}; nothing was changed{hint}.")


_DECIDERS: Mapping[Kind, Callable[[Standing, int | None], Decision]] = {
    Kind.RESUME: _resume,
    Kind.ACCEPT_TOPIC: _accept_topic,
    Kind.START_OVER: _start_over,
}
