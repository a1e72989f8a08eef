"""Holds a batch's ranges against what Kafka still has: cheap, and done before Spark is started."""

from collections.abc import Mapping, Sequence

from workorders.kafka.batches import BatchRange
from workorders.kafka.exceptions import DataLostError, RangeError, TopicRecreatedError
from workorders.kafka.partitions import Partition, PartitionOffsets


def begin_of_reading(part: BatchRange, log: PartitionOffsets | None) -> int:
    """Return the offset at which an attempt at this range begins to read.

    That is the range's start, or for a replay the first offset that Kafka still has, at most the range's end: what
    lies before it may have its work orders already, which the replay counts.

    Args:
        part: the range.
        log: the partition's ends now; None when Kafka does not have the partition.

    Raises:
        RangeError: the range cannot be read as it was planned.
    """
    range_ = part.range
    untouched = "nothing was committed there and nothing was skipped; an operator must decide how to go on"
    if log is None:
        raise DataLostError(f"{range_}: Kafka does not have this partition any more; {untouched}.")
    if log.partition.topic_id != range_.partition.topic_id:
        raise TopicRecreatedError(
            f"{range_}: topic {range_.partition.topic} was deleted and made again, so its offsets mean other messages "
            f"now; {untouched}."
        )
    if part.finished:
        return min(max(range_.start, log.log_start), range_.end)
    if log.log_start > range_.start:
        gone = f"[{range_.start}, {min(log.log_start, range_.end)})"
        raise DataLostError(f"{range_}: offsets {gone} were deleted by retention before they were read; {untouched}.")
    if log.high_watermark < range_.end:
        raise DataLostError(
            f"{range_}: the log ends at offset {log.high_watermark}, so it was cut short since the batch was planned; "
            f"{untouched}."
        )
    return range_.start


def examine(
    parts: Sequence[BatchRange], logs: Mapping[Partition, PartitionOffsets]
) -> tuple[dict[Partition, int], dict[Partition, RangeError]]:
    """Return where to begin reading, and what cannot be read, by partition.

    Args:
        parts: the ranges of a batch.
        logs: the partitions' ends now, with the topic ids of now.
    """
    by_place = {(log.partition.topic, log.partition.partition): log for log in logs.values()}
    begins: dict[Partition, int] = {}
    errors: dict[Partition, RangeError] = {}
    for part in parts:
        partition = part.range.partition
        try:
            begins[partition] = begin_of_reading(part, by_place.get((partition.topic, partition.partition)))
        except RangeError as error:
            errors[partition] = error
    return begins, errors
