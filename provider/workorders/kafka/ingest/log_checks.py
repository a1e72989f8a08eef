"""Compares a batch's ranges with the logs in Kafka: a cheap check before Spark starts and before each commit."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from workorders.kafka.client.admin import KafkaAdmin, run, shared_admin
from workorders.kafka.client.range_consumer import read_range
from workorders.kafka.client.requests import Answers
from workorders.kafka.exceptions import (
    AnotherClusterError,
    DataLostError,
    IncompleteReadError,
    RangeError,
    TopicRecreatedError,
)
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ledger.batches import Batch, BatchRange
from workorders.kafka.partitions import OffsetRange, PartitionOffsets, error_at
from workorders.kafka.recovery.decisions import DecisionKind, cli_command


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """The ranges of a batch, checked."""

    attempts: tuple[Attempt, ...]
    """Attempts at the ranges that can be read now."""
    unreadable: Mapping[OffsetRange, RangeError]
    """Errors of the ranges that cannot be read; of a range that is cut, the error of the first virtual partition."""

    @property
    def not_read(self) -> tuple[str, ...]:
        """One sentence for each finished range of which a replay reads nothing."""
        return tuple(
            f"{attempt.range} is finished, and Kafka does not have its messages any more, so nothing of it is read: "
            f"its work orders are counted."
            for attempt in self.attempts
            if attempt.read_from == attempt.range.end
        )


async def check_batch(cluster: KafkaAdmin, batch: Batch, epoch: int) -> PreflightResult:
    """Compare the batch with the logs that Kafka has now.

    An attempt takes the unfinished ranges, and of a range that is cut the unfinished virtual partitions, so a retry
    after a partial failure reads nothing twice. If all are finished, it is a replay and takes them all as whole ranges.
    Superseded ranges are never taken.

    Raises:
        KafkaUnavailableError: the cluster did not answer.
        KafkaRefusedError: the cluster refused the client.
    """
    ranges = [unit for range_ in batch.unfinished or batch.finished for unit in range_.to_ingest]
    if not ranges:
        return PreflightResult((), {})
    places = {unit.range.partition.topic_partition for unit in batch.ranges}
    answers = await cluster.log_ends({topic for topic, _ in places}, places, to_read=True)
    cluster_id = await cluster.cluster_id()
    attempts: list[Attempt] = []
    unreadable: dict[OffsetRange, RangeError] = {}
    for unit in ranges:
        try:
            read_from = _first_offset(batch.trigger.name, unit, answers, cluster_id)
        except RangeError as error:
            unreadable.setdefault(unit.range.planned, error)
        else:
            attempts.append(Attempt.at(batch, unit, epoch, read_from))
    return PreflightResult(tuple(attempts), unreadable)


def _first_offset(
    trigger: str, unit: BatchRange, answers: Answers[dict[tuple[str, int], PartitionOffsets]], cluster_id: str
) -> int:
    """Return the offset at which an attempt at this range begins to read; see `first_readable_offset`."""
    partition = unit.range.partition
    error = error_at(answers.errors, partition)
    if error is not None:
        raise RangeError(f"{unit.range}: nothing was committed there. {error}")
    log = answers.found.get(partition.topic_partition)
    is_own_topic = log is not None and log.partition == partition  # no other cluster has it
    if unit.cluster_id not in {None, cluster_id} and not (unit.finished or is_own_topic):
        raise AnotherClusterError.of(unit.range, unit.cluster_id, cluster_id)
    return first_readable_offset(trigger, unit, log)


def require_same_log(trigger: str, range_: OffsetRange, stored_end: int, log: PartitionOffsets | None) -> None:
    """Raise unless the partition's log is the one that the range was planned for, and at least as long as then.

    Virtual partitions after this one may be stored, and after a `seek` back messages after the range are. If the log is
    shorter than that, offsets that have a work order mean other messages, or soon will.

    The log's start is not checked: messages that were deleted after they were read are no loss.

    Raises:
        RangeError: the range's offsets mean other messages now, or no messages.
    """
    if log is None:
        raise DataLostError(
            f"{range_}: Kafka does not have this partition any more; "
            f"{_needs_decision(trigger, range_, DecisionKind.ACCEPT_TOPIC)} after the topic exists again."
        )
    if log.partition.topic_id != range_.partition.topic_id:
        raise TopicRecreatedError(
            f"{range_}: topic {range_.partition.topic} was deleted and re-created, so its offsets mean other messages "
            f"now; {_needs_decision(trigger, range_, DecisionKind.ACCEPT_TOPIC)}."
        )
    if log.high_watermark < max(range_.planned.end, stored_end):
        raise DataLostError(
            f"{range_}: the log ends at offset {log.high_watermark}, so it was truncated after the batch was planned"
            f"{_truncated(range_.planned, stored_end, log)}; "
            f"{_needs_decision(trigger, range_, DecisionKind.SKIP_LOST)}."
        )


def _truncated(range_: OffsetRange, stored_end: int, log: PartitionOffsets) -> str:
    if log.high_watermark < stored_end:
        return f", and work orders exist up to offset {stored_end}"
    if log.high_watermark < range_.start:
        return ""
    return f", and unread offsets [{log.high_watermark}, {range_.end}) are lost"


def first_readable_offset(trigger: str, unit: BatchRange, log: PartitionOffsets | None) -> int:
    """Return the offset at which an attempt at this range begins to read.

    That is the range's start, or for a replay the first offset that Kafka still has, at most the range's end: messages
    before it may have work orders already, which the replay counts. A replay reads nothing if the log is another one,
    because its offsets mean other messages, or if there is none.

    Raises:
        RangeError: the range cannot be read as it was planned.
    """
    range_ = unit.range
    if unit.finished and (unit.of_earlier_log or log is None or log.partition.topic_id != range_.partition.topic_id):
        return range_.end
    require_same_log(trigger, range_, unit.stored_end, log)
    log_start = range_.start if log is None else log.log_start
    if unit.finished:
        return min(max(range_.start, log_start), range_.end)
    if log_start > range_.start:
        raise DataLostError(
            f"{range_}: offsets [{range_.start}, {log_start}) were deleted by retention before they were read; "
            f"{_needs_decision(trigger, range_, DecisionKind.SKIP_LOST)}."
        )
    return range_.start


def _needs_decision(trigger: str, range_: OffsetRange, kind: DecisionKind) -> str:
    return (
        f"nothing was committed there and nothing was skipped; an operator must decide how to continue: "
        f"`{cli_command(kind, trigger, range_.partition)}`"
    )


def verify_range_end(settings: Mapping[str, str], range_: OffsetRange, from_offset: int) -> None:
    """Raise unless a `read_committed` reader finds no message in `[from_offset, range_.end)`.

    Transaction markers, aborted messages and compaction leave such gaps at the end of a range.

    Raises:
        IncompleteReadError: there is or may be a message, so the first reader stopped too early.
        KafkaUnavailableError: no answer within a minute.
        KafkaException: Kafka refused, for example because the offset was deleted.
    """
    with closing(read_range(settings, range_, from_offset)) as messages:
        found = next(messages, None)
    if found is not None:
        raise IncompleteReadError(
            f"{range_}: the reader ended too early, because there may be a message at offset {found.offset}; "
            f"nothing was committed there."
        )


def verify_topic_unchanged(settings: Mapping[str, str], attempt: Attempt) -> None:
    """Raise unless the topic has the id that the range was planned with, and its log is at least as long as then.

    Spark compares no topic ids. Ids are never reused, so the right id *after* the last message was read proves that all
    messages were this topic's. This sends two requests to Kafka.

    Raises:
        RangeError: the topic was deleted or re-created, or its log was truncated.
        KafkaUnavailableError: the cluster did not answer.
        KafkaRefusedError: the cluster refused the client.
    """
    place = attempt.range.partition.topic_partition
    logs = run(shared_admin(settings).log_ends([attempt.range.partition.topic], [place])).require()
    require_same_log(attempt.trigger.name, attempt.range, attempt.stored_end, logs.get(place))
