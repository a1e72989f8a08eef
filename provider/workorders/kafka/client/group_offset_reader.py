"""Reads the offsets that a consumer group has committed, without joining it.

The administration client has this request as well, but librdkafka ends the process with a segmentation fault while the
group's coordinator is being elected (https://github.com/confluentinc/librdkafka/issues/5040). A consumer without a
subscription can ask too, joins nothing, and waits for the coordinator.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from workorders.kafka.client.broker_errors import COORDINATOR_UNAVAILABLE, unavailable_error
from workorders.kafka.client.new_client import new_client
from workorders.kafka.partitions import Partition

_AGAIN_SECONDS = 0.2


async def group_offsets(
    settings: Mapping[str, str], group: str, partitions: Iterable[Partition], *, timeout_seconds: float
) -> dict[Partition, int | None]:
    """Return the group's committed offsets; None for a partition without one.

    Args:
        settings: librdkafka settings as an administration client takes them.
        group: id of the consumer group.
        partitions: where to look.
        timeout_seconds: limit of the whole question.

    Raises:
        KafkaUnavailableError: the group's coordinator did not answer in time, or refused to tell.
    """
    wanted = list(partitions)
    if not wanted:
        return {}
    return await asyncio.to_thread(_ask, settings, group, wanted, timeout_seconds)


def _ask(
    settings: Mapping[str, str], group: str, wanted: list[Partition], timeout_seconds: float
) -> dict[Partition, int | None]:
    consumer = new_client(Consumer, {**settings, "group.id": group, "enable.auto.commit": False})
    try:
        found = _until_coordinated(consumer, wanted, time.monotonic() + timeout_seconds)
        for answer in found:
            if answer.error is not None:
                raise KafkaException(answer.error)
    except KafkaException as error:
        about = f"the offsets of consumer group {group} are unknown"
        raise unavailable_error(settings.get("bootstrap.servers", ""), error.args[0], about) from error
    finally:
        consumer.close()
    offsets = {(answer.topic, answer.partition): answer.offset for answer in found}
    return {part: _offset(offsets[part.topic, part.partition]) for part in wanted}


def _until_coordinated(consumer: Consumer, wanted: Iterable[Partition], deadline: float) -> list[TopicPartition]:
    """Retry while the group's coordinator is being elected, which librdkafka learns only from a refusal."""
    places = [TopicPartition(part.topic, part.partition) for part in wanted]
    while True:
        try:
            return consumer.committed(places, max(deadline - time.monotonic(), _AGAIN_SECONDS))
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_UNAVAILABLE or time.monotonic() > deadline:
                raise
            consumer.poll(_AGAIN_SECONDS)


def _offset(offset: int) -> int | None:
    # librdkafka has negative numbers for "none".
    return offset if offset >= 0 else None
