"""When the messages at given offsets were written: read without a group, open transactions included."""

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaException, Message, TopicPartition

from workorders.kafka.client.new_client import new_client
from workorders.kafka.client.range_consumer import GROUP_NEVER_JOINED
from workorders.kafka.partitions import Partition

_POLL_SECONDS = 0.2


async def message_times(
    settings: Mapping[str, str], offsets: Mapping[Partition, int], *, timeout_seconds: float
) -> dict[Partition, datetime]:
    """Return the time of the first message at or behind each offset, by the message's own timestamp.

    A partition is left out when nothing came in time, or its message has no time that a calendar knows: that is for
    people to look at, and nothing depends on it.

    Args:
        settings: librdkafka settings as an administration client takes them.
        offsets: where to look.
        timeout_seconds: limit of the whole question.
    """
    if not offsets:
        return {}
    return await asyncio.to_thread(_read, settings, offsets, timeout_seconds)


def _read(
    settings: Mapping[str, str], offsets: Mapping[Partition, int], timeout_seconds: float
) -> dict[Partition, datetime]:
    consumer = new_client(
        Consumer,
        {
            **settings,
            "group.id": GROUP_NEVER_JOINED,
            "enable.auto.commit": "false",
            "isolation.level": "read_uncommitted",
            # One message a partition is wanted, and no megabytes behind it.
            "fetch.message.max.bytes": "1024",
            "fetch.wait.max.ms": "10",
        },
    )
    found: dict[Partition, datetime] = {}
    waiting = {(part.topic, part.partition): part for part in offsets}
    deadline = time.monotonic() + timeout_seconds
    try:
        consumer.assign([TopicPartition(part.topic, part.partition, offset) for part, offset in offsets.items()])
        while waiting and time.monotonic() < deadline:
            message = consumer.poll(_POLL_SECONDS)
            if message is None or message.error() is not None:
                continue
            part = waiting.pop((str(message.topic()), int(message.partition() or 0)), None)
            moment = _moment(message)
            if part is not None and moment is not None:
                found[part] = moment
    except KafkaException:
        return found
    finally:
        consumer.close()
    return found


def _moment(message: Message) -> datetime | None:
    kind, milliseconds = message.timestamp()
    if kind == TIMESTAMP_NOT_AVAILABLE:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, OSError, ValueError):  # the producer may set it to any number
        return None
