"""Checks before an attempt at a batch which of its ranges can be read."""

from collections.abc import Mapping
from dataclasses import dataclass

from workorders.core.exceptions import WorkOrdersError
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.exceptions import (
    AnotherClusterError,
    PartitionUnavailableError,
    RangeError,
    ReadRefusedError,
    TopicForbiddenError,
)
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ingest.log_checks import check_ranges
from workorders.kafka.ledger.batches import Batch, BatchRange
from workorders.kafka.partitions import OffsetRange, PartitionOffsets, error_at


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
    errors: dict[OffsetRange, RangeError] = {
        unit.range: _unanswered(unit.range, error)
        for unit in ranges
        if (error := error_at(answers.errors, unit.range.partition)) is not None
    }
    cluster_id = await cluster.cluster_id()
    errors |= {
        unit.range: AnotherClusterError.of(unit.range, unit.cluster_id, cluster_id)
        for unit in ranges
        if unit.cluster_id not in {None, cluster_id} and not unit.finished and not _has_topic(unit, answers.found)
    }
    answered = [unit for unit in ranges if unit.range not in errors]
    begins, lost = check_ranges(batch.trigger.name, answered, answers.found)
    errors |= lost
    attempts = tuple(Attempt.at(batch, unit, epoch, begins[unit.range]) for unit in ranges if unit.range in begins)
    unreadable: dict[OffsetRange, RangeError] = {}
    for range_, error in errors.items():
        unreadable.setdefault(range_.planned, error)
    return PreflightResult(attempts, unreadable)


def _has_topic(unit: BatchRange, logs: Mapping[tuple[str, int], PartitionOffsets]) -> bool:
    """Return whether Kafka has the range's own topic, which no other cluster has."""
    log = logs.get(unit.range.partition.topic_partition)
    return log is not None and log.partition == unit.range.partition


def _unanswered(range_: OffsetRange, error: WorkOrdersError) -> RangeError:
    kind = ReadRefusedError if isinstance(error, TopicForbiddenError) else PartitionUnavailableError
    return kind(f"{range_}: nothing was committed there. {error}")
