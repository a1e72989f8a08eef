"""What an operator can decide if Kafka lost data, and what each decision means: pure functions, no I/O."""

import shlex
from dataclasses import dataclass
from enum import StrEnum

from workorders.kafka.exceptions import DecisionRefusedError
from workorders.kafka.partitions import OffsetRange, Partition, PartitionOffsets


class DecisionKind(StrEnum):
    """Kinds of decisions."""

    SKIP_LOST = "skip-lost"
    """Continue at the first offset that Kafka still has, or at the end of a truncated log."""
    ACCEPT_TOPIC = "accept-topic"
    """Follow the topic that was re-created under the name."""
    SEEK = "seek"
    """Continue at a given offset, forward or back."""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """State of a partition when an operator looks: the ledger, the batch that holds it, and Kafka."""

    trigger: str
    partition: Partition
    """With the topic id that the ledger follows."""
    next_offset: int
    stored_end: int
    """Highest end of what is stored of this log."""
    start_offset: int
    """Offset at which reading of this log began."""
    generation: int
    """Number of the decision since which offsets mean other messages under the same topic id; 0 for none."""
    topic_id_now: str | None = None
    """Id of the topic that has the name now; None if no topic has it."""
    log: PartitionOffsets | None = None
    """The partition's ends now; None if Kafka does not have the partition."""
    held: OffsetRange | None = None
    """The unfinished range that holds the partition."""
    batch_id: int | None = None
    """The batch of that range."""
    first_stored: int | None = None
    """First offset from the ledger's position on that has a work order; None if none has."""
    kept_days: float | None = None
    """Days after which retention deletes the first work orders; None if it deletes none."""

    @property
    def planned_end(self) -> int:
        """Return the highest of the ledger's position and the ends of what is stored and planned."""
        return max(self.next_offset, self.stored_end, 0 if self.held is None else self.held.end)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a decision changes on one partition."""

    kind: DecisionKind
    state: PartitionFacts
    to: Partition
    to_offset: int
    effect: str
    """What it skips or repeats, as text."""
    lost: tuple[int, int] | None = None
    """Offsets `[start, end)` that have no work order and will get none; None if none are known."""
    another_log: bool = False
    """Whether offsets mean other messages than before from here, although the topic's id is the same."""

    @property
    def goes_back(self) -> bool:
        """Whether the ledger goes back within its log, so that the consumer group must be set back first."""
        return self.to == self.state.partition and self.to_offset < self.state.next_offset

    @property
    def facts(self) -> dict[str, str | int | None]:
        """What is recorded and shown of it: the partition, the topic ids and offsets from and to, and the batch."""
        state, (lost_start, lost_end) = self.state, self.lost or (None, None)
        return {
            "topic": state.partition.topic,
            "partition": state.partition.partition,
            "kind": self.kind.value,
            "from_topic_id": state.partition.topic_id,
            "from_offset": state.next_offset,
            "to_topic_id": self.to.topic_id,
            "to_offset": self.to_offset,
            "lost_start": lost_start,
            "lost_end": lost_end,
            "superseded_batch": state.batch_id,
        }

    def __str__(self) -> str:
        """Return one sentence: the offsets from and to, what is lost, and what is superseded."""
        state = self.state
        topic = "" if self.to == state.partition else " of the new topic"
        parts = [
            f"{state.trigger}: {state.partition}: {self.kind}: "
            f"the ledger goes from {state.next_offset} to {self.to_offset}{topic}",
            self.effect,
        ]
        if state.held is not None:
            held = f"[{state.held.start}, {state.held.end})"
            parts.append(f"range {held} of batch {state.batch_id} is superseded")
        return "; ".join(parts) + "."


def cli_command(kind: DecisionKind, trigger: str, partition: Partition) -> str:
    """Return the command that decides about a partition."""
    words = ["workorders", "resolve", kind.value, trigger, partition.topic, "--partition", str(partition.partition)]
    return shlex.join(words)


def required_decision(state: PartitionFacts) -> DecisionKind | None:
    """Return the decision without which the partition cannot continue; None if it can."""
    if state.topic_id_now is None:
        return DecisionKind.SKIP_LOST if state.held is not None else None
    if state.topic_id_now != state.partition.topic_id:
        return DecisionKind.ACCEPT_TOPIC
    log = state.log
    if log is not None and (log.log_start > state.next_offset or log.high_watermark < state.planned_end):
        return DecisionKind.SKIP_LOST
    return None


def decide(kind: DecisionKind, state: PartitionFacts, offset: int | None = None) -> Decision:
    """Return what a decision of this kind means for a partition.

    The offset is where to continue. It is required to seek; otherwise it replaces the first offset of a new topic, or
    the end of a truncated log.

    Raises:
        DecisionRefusedError: it does not apply; the text names the kind that does.
    """
    deciders = {DecisionKind.SKIP_LOST: _skip_lost, DecisionKind.ACCEPT_TOPIC: _accept_topic, DecisionKind.SEEK: _seek}
    return deciders[kind](state, offset)


def _skip_lost(state: PartitionFacts, offset: int | None) -> Decision:
    start, log = state.next_offset, state.log
    if state.topic_id_now not in {None, state.partition.topic_id}:
        raise _refused(state, "its topic was re-created", DecisionKind.ACCEPT_TOPIC)
    if log is None:
        if state.topic_id_now is not None:
            raise _refused(state, "Kafka has its topic and reports nothing about this partition now")
        if state.held is None:
            raise _refused(state, "Kafka does not have it any more, and no batch holds it")
        target, lost = state.held.end, (start, state.held.end)
        reason = ", with their topic"
    elif log.high_watermark < max(start, state.stored_end):
        return _skip_after_truncation(state, log, offset)
    elif log.log_start > start:
        target, lost = log.log_start, (start, log.log_start)
        reason = " because retention deleted them before they were read"
    elif log.high_watermark < state.planned_end:
        target, lost = start, (log.high_watermark, state.planned_end)
        reason = " because the log was truncated before they were read; messages before and after that gap are read"
    else:
        raise _refused(state, f"Kafka has every offset from {start}, so no message is lost", DecisionKind.SEEK)
    _require_none(state, offset)
    return Decision(DecisionKind.SKIP_LOST, state, state.partition, target, f"{_lost_text(lost)}{reason}", lost)


def _skip_after_truncation(state: PartitionFacts, log: PartitionOffsets, offset: int | None) -> Decision:
    """Continue in another log: offsets after its end now are those of other messages, which have work orders.

    What is unread before that end is read if nothing there is stored. Otherwise it would be stored twice, so reading
    continues at the log's end.
    """
    end = log.high_watermark
    unread = max(state.next_offset, log.log_start)
    is_stored = state.first_stored is not None and state.first_stored < end
    target = (end if is_stored else min(unread, end)) if offset is None else offset
    _require_in_log(state, log, target)
    effect = (
        f"the log was truncated at offset {end}, and work orders exist up to offset "
        f"{max(state.next_offset, state.stored_end)}; they stay, and every message from offset {target} is a new one"
    )
    if unread < target:
        effect += f"; of offsets [{unread}, {target}), those without a work order get none"
    if is_stored and target < end:
        effect += f"; messages before offset {end} that have a work order get another one"
    if log.log_start < target:
        effect += f"; messages written before offset {target} after the truncation are not read"
    lost = (unread, target) if unread < target and not is_stored else None
    return Decision(DecisionKind.SKIP_LOST, state, state.partition, target, effect, lost, another_log=True)


def _accept_topic(state: PartitionFacts, offset: int | None) -> Decision:
    if state.topic_id_now is None:
        raise _refused(state, "no topic has that name now")
    if state.topic_id_now == state.partition.topic_id:
        raise _refused(state, "the ledger follows this topic already, so there is no new topic to accept")
    to = Partition(state.partition.topic, state.partition.partition, state.topic_id_now)
    effect = (
        f"unread messages of the old topic from offset {state.next_offset} are lost, and their number is unknown; work "
        f"orders of the old topic stay"
    )
    if state.log is None:
        _require_none(state, offset)
        effect += "; the new topic does not have this partition, which is read from its first offset if it is added"
        return Decision(DecisionKind.ACCEPT_TOPIC, state, to, 0, effect)
    target = state.log.log_start if offset is None else offset
    _require_in_log(state, state.log, target)
    skipped = target - state.log.log_start
    if skipped:
        effect += f"; offsets [{state.log.log_start}, {target}) of the new topic ({skipped:,}) are skipped"
    return Decision(DecisionKind.ACCEPT_TOPIC, state, to, target, effect)


def _seek(state: PartitionFacts, offset: int | None) -> Decision:
    if state.topic_id_now is not None and state.topic_id_now != state.partition.topic_id:
        raise _refused(state, "its topic was re-created", DecisionKind.ACCEPT_TOPIC)
    if state.log is None:
        raise _refused(state, "Kafka does not have it now")
    if offset is None:
        raise _refused(state, "seek needs an offset")
    if state.log.high_watermark < max(state.next_offset, state.stored_end):
        raise _refused(state, "its log was truncated below the end of what is stored", DecisionKind.SKIP_LOST)
    _require_in_log(state, state.log, offset)
    if state.generation and offset < state.start_offset:
        raise _refused(
            state,
            f"reading of this log began at offset {state.start_offset}, by decision {state.generation}; messages "
            f"before that offset have work orders from before the truncation and would be duplicated",
        )
    start = state.next_offset
    if offset < start:
        effect = (
            f"offsets [{offset}, {start}) ({start - offset:,}) are read again: messages that have a work order keep "
            f"it, and the others get one"
        )
        if state.kept_days is not None:
            effect += f", also those whose work orders retention deleted, which it does after {state.kept_days:g} days"
    elif offset == start:
        effect = "nothing is skipped and nothing is read again"
    else:
        effect = f"{_lost_text((start, offset))} because they are skipped"
    lost = (start, offset) if offset > start else None
    return Decision(DecisionKind.SEEK, state, state.partition, offset, effect, lost)


def _lost_text(offsets: tuple[int, int]) -> str:
    start, end = offsets
    return f"offsets [{start}, {end}) ({end - start:,}) get no work order"


def _require_none(state: PartitionFacts, offset: int | None) -> None:
    if offset is not None:
        raise _refused(state, "the offset follows from what Kafka has, so none can be given here")


def _require_in_log(state: PartitionFacts, log: PartitionOffsets, offset: int) -> None:
    if not log.log_start <= offset <= log.high_watermark:
        raise _refused(
            state, f"offset {offset} is not in the log, which is [{log.log_start}, {log.high_watermark}) now"
        )


def _refused(state: PartitionFacts, reason: str, instead: DecisionKind | None = None) -> DecisionRefusedError:
    hint = "" if instead is None else f"; see `{cli_command(instead, state.trigger, state.partition)}`"
    return DecisionRefusedError(f"{state.trigger}: {state.partition}: {reason}; nothing was changed{hint}.")
