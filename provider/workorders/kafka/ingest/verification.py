"""Proves that nothing visible lies between the last message that was read and the end of a range."""

from collections.abc import Mapping
from contextlib import closing

from workorders.kafka.client.range_consumer import read_range
from workorders.kafka.exceptions import IncompleteReadError
from workorders.kafka.partitions import OffsetRange


def prove_end(settings: Mapping[str, str], range_: OffsetRange, from_offset: int) -> None:
    """Return when a `read_committed` reader finds no message in `[from_offset, range_.end)`.

    Transaction markers, aborted messages and compaction leave such gaps at the end of a range.

    Raises:
        IncompleteReadError: there is a message, or there may be one, so the reader before us stopped too early.
        KafkaUnavailableError: no answer within a minute.
        KafkaException: Kafka refused, for example since the offset is no longer there.
    """
    with closing(read_range(settings, range_, from_offset)) as messages:
        found = next(messages, None)
    if found is not None:
        raise IncompleteReadError(
            f"{range_}: the reader ended too early, for there may be a message at offset {found.offset}; "
            f"nothing was committed there."
        )
