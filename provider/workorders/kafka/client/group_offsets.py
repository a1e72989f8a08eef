"""Reads the offsets of a consumer group, without joining it."""

import time
from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from workorders.core.exceptions import WorkOrdersError
from workorders.kafka.client.broker_errors import COORDINATOR_UNAVAILABLE, ConnectionErrors, request_error
from workorders.kafka.client.new_client import new_client
from workorders.kafka.client.requests import Answers
from workorders.kafka.partitions import Partition, Place

_AGAIN_SECONDS = 0.2


def committed_offsets(
    settings: Mapping[str, str], group: str, wanted: list[Partition], timeout_seconds: float
) -> Answers[dict[Partition, int | None]]:
    """Return what `KafkaAdmin.committed` does, by a consumer without a subscription, which joins nothing.

    It waits for the group's coordinator. The administration client has this request as well, but librdkafka ends the
    process with a segmentation fault while the coordinator is being elected
    (https://github.com/confluentinc/librdkafka/issues/5040).
    """
    connections = ConnectionErrors()

    def to_domain_error(error: KafkaError) -> WorkOrdersError:
        resource = "these topics" if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED else f"group {group}"
        about, servers = f"the offsets of consumer group {group} are unknown", settings.get("bootstrap.servers", "")
        return request_error(servers, error, connections, about=about, right=f"Describe on {resource}")

    own = {"group.id": group, "enable.auto.commit": False, "error_cb": connections}
    consumer = new_client(Consumer, {"log_level": 2, **settings, **own})
    try:
        found = _until_coordinated(consumer, wanted, time.monotonic() + timeout_seconds)
    except KafkaException as error:
        # A missing right to the group lets the request time out, and comes as an event.
        event = consumer.poll(0)
        raise to_domain_error((event.error() if event is not None else None) or error.args[0]) from error
    finally:
        consumer.close()
    answers = {(answer.topic, answer.partition): answer for answer in found}
    errors: dict[Place, WorkOrdersError] = {
        place: to_domain_error(answer.error) for place, answer in answers.items() if answer.error is not None
    }
    # librdkafka has negative numbers for "none".
    return Answers(
        {
            partition: offset if (offset := answers[partition.topic_partition].offset) >= 0 else None
            for partition in wanted
            if partition.topic_partition not in errors
        },
        errors,
    )


def _until_coordinated(consumer: Consumer, wanted: Iterable[Partition], deadline: float) -> list[TopicPartition]:
    """Retry while the group's coordinator is being elected, which librdkafka learns only from a refusal."""
    places = [TopicPartition(partition.topic, partition.partition) for partition in wanted]
    while True:
        try:
            return consumer.committed(places, max(deadline - time.monotonic(), _AGAIN_SECONDS))
        except KafkaException as error:
            if error.args[0].code() not in COORDINATOR_UNAVAILABLE or time.monotonic() > deadline:
                raise
            consumer.poll(_AGAIN_SECONDS)
