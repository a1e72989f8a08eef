"""Checks after a range was read and before it is committed: it was read to its end, and its topic is the same."""

from collections.abc import Mapping
from contextlib import closing

from workorders.kafka.client.admin import run, shared_admin
from workorders.kafka.client.range_consumer import read_range
from workorders.kafka.exceptions import IncompleteReadError
from workorders.kafka.ingest.attempt import Attempt
from workorders.kafka.ingest.log_checks import require_same_log
from workorders.kafka.partitions import OffsetRange


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
