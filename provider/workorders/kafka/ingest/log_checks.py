"""Holds a batch's ranges against what Kafka still has: cheap, and done before Spark is started and before a commit."""

from collections.abc import Mapping, Sequence

from workorders.kafka.exceptions import DataLostError, RangeError, TopicRecreatedError
from workorders.kafka.ledger.batches import BatchRange
from workorders.kafka.partitions import OffsetRange, Partition, PartitionOffsets
from workorders.kafka.recovery.decisions import Kind, command


def require_same_log(trigger: str, range_: OffsetRange, log: PartitionOffsets | None) -> None:
    """Return when the partition's log is the one that the range was planned of, and at least as long as then.

    Where the log begins now is not asked: what was deleted after it was read is no loss.

    Args:
        trigger: name of the trigger.
        range_: the range.
        log: the partition's ends now; None when Kafka does not have the partition.

    Raises:
        RangeError: the range's offsets mean other messages now, or none.
    """
    if log is None:
        raise DataLostError(
            f"{range_}: Kafka does not have this partition any more; "
            f"{_needs_decision(trigger, range_, Kind.ACCEPT_TOPIC)}, after the topic was re-created."
        )
    if log.partition.topic_id != range_.partition.topic_id:
        raise TopicRecreatedError(
            f"{range_}: topic {range_.partition.topic} was deleted and made again, so its offsets mean other messages "
            f"now; {_needs_decision(trigger, range_, Kind.ACCEPT_TOPIC)}."
        )
    if log.high_watermark < range_.end:
        gone = f"[{log.high_watermark}, {range_.end})"
        unread = f", and offsets {gone} are gone unread" if log.high_watermark >= range_.start else ""
        raise DataLostError(
            f"{range_}: the log ends at offset {log.high_watermark}, so it was cut short since the batch was planned"
            f"{unread}; {_needs_decision(trigger, range_, Kind.RESUME)}."
        )


def first_readable_offset(trigger: str, part: BatchRange, log: PartitionOffsets | None) -> int:
    """Return the offset at which an attempt at this range begins to read.

    That is the range's start, or for a replay the first offset that Kafka still has, at most the range's end: what
    lies before it may have its work orders already, which the replay counts. A replay reads nothing of a log that was
    cut short since, for its offsets may mean other messages now.

    Args:
        trigger: name of the trigger.
        part: the range.
        log: the partition's ends now; None when Kafka does not have the partition.

    Raises:
        RangeError: the range cannot be read as it was planned.
    """
    range_ = part.range
    if part.finished and part.cut_since:
        return range_.end
    require_same_log(trigger, range_, log)
    log_start = range_.start if log is None else log.log_start
    if part.finished:
        return min(max(range_.start, log_start), range_.end)
    if log_start > range_.start:
        raise DataLostError(
            f"{range_}: offsets [{range_.start}, {log_start}) were deleted by retention before they were read; "
            f"{_needs_decision(trigger, range_, Kind.RESUME)}."
        )
    return range_.start


def check_ranges(
    trigger: str, parts: Sequence[BatchRange], logs: Mapping[tuple[str, int], PartitionOffsets]
) -> tuple[dict[Partition, int], dict[Partition, RangeError]]:
    """Return where to begin reading, and what cannot be read, by partition.

    Args:
        trigger: name of the trigger.
        parts: the ranges of a batch.
        logs: the partitions' ends now, by topic and number, with the topic ids of now.
    """
    begins: dict[Partition, int] = {}
    errors: dict[Partition, RangeError] = {}
    for part in parts:
        partition = part.range.partition
        try:
            begins[partition] = first_readable_offset(trigger, part, logs.get(partition.topic_partition))
        except RangeError as error:
            errors[partition] = error
    return begins, errors


def _needs_decision(trigger: str, range_: OffsetRange, kind: Kind) -> str:
    return (
        f"nothing was committed there and nothing was skipped; an operator must decide how to go on, "
        f"by `{command(kind, trigger, range_.partition)}`"
    )
