"""Reads one range with its own consumer: joins no group, commits nothing, and is `read_committed`.

Spark reads the ranges. This consumer verifies that a range was read to its end, and reads a range that has a message
which Spark's source cannot turn into a row.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from operator import methodcaller
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from workorders.kafka.client.broker_errors import FORBIDDEN, ConnectionErrors, refused_error
from workorders.kafka.client.new_client import new_client
from workorders.kafka.exceptions import IncompleteReadError, KafkaRefusedError, KafkaUnavailableError
from workorders.kafka.partitions import OffsetRange, Record

TIMEOUT_SECONDS = 60.0
"""Maximum wait for the next message or for the end of the partition."""
UNREADABLE_HEADERS = "workorders.unreadable-headers"
"""Name of the one header that replaces those of a message if a header name is not UTF-8."""
_POLL_SECONDS = 1.0
GROUP_NEVER_JOINED: Final = "workorders-range-reader"
"""Group of consumers that are assigned their partitions: librdkafka requires one. No right to it is needed."""
_SETTINGS: Final = {
    "group.id": GROUP_NEVER_JOINED,
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    # At the end of a quiet partition the broker would withhold its answer for half a second.
    "fetch.wait.max.ms": 10,
    # Limits what is fetched ahead; a single larger message still arrives.
    "queued.max.messages.kbytes": 16384,
}
# For a name that is not UTF-8 the client sets an exception and still returns a broken list. Python notices that in a
# call by C, but not in one that its interpreter has specialized: there, the next operation fails or crashes.
_ASK_HEADERS: Callable[[Message], Sequence[tuple[str, bytes | None]] | None] = methodcaller("headers")


def read_range(settings: Mapping[str, str], range_: OffsetRange, from_offset: int) -> Generator[Record, None, None]:
    """Yield the visible messages of `[from_offset, range_.end)` in the order of their offsets.

    It ends only at a message at or after the range's end, or if Kafka reports that the last stable offset is there.

    Raises:
        IncompleteReadError: what can be read ends before the range does.
        KafkaUnavailableError: no answer within a minute.
        KafkaRefusedError: the cluster refused the client.
        KafkaException: Kafka refused, for example because the offset was deleted.
    """
    partition, errors = range_.partition, ConnectionErrors()
    consumer = new_client(Consumer, {"log_level": 2, **settings, **_SETTINGS, "error_cb": errors})
    consumer.assign([TopicPartition(partition.topic, partition.partition, from_offset)])
    servers = settings.get("bootstrap.servers", "")
    try:
        while (message := _next(consumer, range_, servers, errors)) is not None:
            yield _record(message)
    finally:
        consumer.close()


def is_out_of_range(error: Exception) -> bool:
    """Return whether a read failed because Kafka does not have its first offset any more."""
    return isinstance(error, KafkaException) and error.args[0].code() == KafkaError._AUTO_OFFSET_RESET


def _next(consumer: Consumer, range_: OffsetRange, servers: str, errors: ConnectionErrors) -> Message | None:
    """Return the next message of the range; None at its end."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(_POLL_SECONDS)
        if message is None:
            continue
        error, offset = message.error(), message.offset()
        if error is None:
            return message if offset is None or offset < range_.end else None
        # librdkafka looks for the group's coordinator, although nothing is joined or committed.
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            continue
        if error.code() == KafkaError._PARTITION_EOF:
            # Its offset is the last stable one: every visible message before it was delivered.
            if offset is None or offset < range_.end:
                raise IncompleteReadError(
                    f"{range_}: the reader ended too early, because readable messages end at offset "
                    f"{offset}; nothing was committed there."
                )
            return None
        if error.code() in FORBIDDEN:
            raise _refused(range_, refused_error(servers, error, f"Read on topic {range_.partition.topic}"))
        if error.fatal() or not error.retriable():
            raise KafkaException(error)
    if errors.refusal is not None:
        raise _refused(range_, refused_error(servers, errors.refusal))
    raise KafkaUnavailableError(f"{range_}: Kafka did not answer within {TIMEOUT_SECONDS:.0f} s{errors.reason}.")


def _refused(range_: OffsetRange, error: KafkaRefusedError) -> KafkaRefusedError:
    return KafkaRefusedError(f"{range_}: nothing was committed there. {error}")


def _record(message: Message) -> Record:
    type_, timestamp_ms = message.timestamp()
    return Record(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        key=message.key(),
        value=message.value(),
        timestamp_ms=timestamp_ms,
        timestamp_type=type_ - 1,  # librdkafka counts from 0, where Kafka counts from -1
        headers=_headers(message),
    )


def _headers(message: Message) -> Sequence[tuple[str, bytes | None]]:
    # The client assumes that names are UTF-8 (seen with confluent-kafka 2.16.1). A message without its headers is
    # better than a stalled partition.
    try:
        return _ASK_HEADERS(message) or ()
    except (SystemError, UnicodeDecodeError):
        return [(UNREADABLE_HEADERS, None)]
