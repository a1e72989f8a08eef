"""Proves that nothing visible lies between the last message that was read and the end of a range."""

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from workorders.kafka.exceptions import IncompleteReadError, KafkaUnavailableError
from workorders.kafka.partitions import OffsetRange

TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 1.0
_GROUP_IS_NEVER_JOINED = "workorders-range-end"


def prove_end(settings: Mapping[str, str], range_: OffsetRange, from_offset: int) -> None:
    """Return when a `read_committed` reader finds no message in `[from_offset, range_.end)`.

    Transaction markers, aborted messages and compaction leave such gaps at the end of a range. The partition is
    assigned and not subscribed to, so no group is joined and nothing is committed.

    Raises:
        IncompleteReadError: there is a message, so the reader before us stopped too early.
        KafkaUnavailableError: no answer within a minute.
    """
    consumer = Consumer(
        {
            **settings,
            "group.id": _GROUP_IS_NEVER_JOINED,
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            # At the end of a quiet partition the broker would hold the answer back for half a second.
            "fetch.wait.max.ms": "10",
        }
    )
    try:
        consumer.assign([TopicPartition(range_.partition.topic, range_.partition.partition, from_offset)])
        found = _first_possible(consumer, range_)
    finally:
        consumer.close()
    if found is None or found < range_.end:
        raise IncompleteReadError(
            f"{range_}: the reader ended too early, for there may be a message at offset {found}; "
            f"nothing was committed there."
        )


def _first_possible(consumer: Consumer, range_: OffsetRange) -> int | None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(_POLL_SECONDS)
        if message is None:
            continue
        error = message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            # At the end of the partition, this is the last stable offset: nothing visible lies before it.
            return message.offset()
        if error.fatal() or not error.retriable():
            raise KafkaException(error)
    raise KafkaUnavailableError(f"{range_}: Kafka did not answer within {TIMEOUT_SECONDS:.0f} s.")
