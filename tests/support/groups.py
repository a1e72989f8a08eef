"""Consumer groups of a broker that may have started a moment ago."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer

from local_stack.waiting import wait_until
from workorders.core.exceptions import WorkOrdersError
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.partitions import Partition

SECONDS = 30.0


def commit(cluster: KafkaAdmin, group: str, positions: Mapping[Partition, int]) -> None:
    """Write a group's offsets, as soon as the broker has loaded the group's coordinator."""
    assert wait_until(lambda: _commits(cluster, group, positions), seconds=SECONDS)


def _commits(cluster: KafkaAdmin, group: str, positions: Mapping[Partition, int]) -> bool:
    try:
        run(cluster.commit(group, positions))
    except WorkOrdersError as error:
        if "oordinator" in str(error):
            return False
        raise
    return True


@contextmanager
def member(settings: Mapping[str, Any], group: str, topic: str) -> Iterator[None]:
    """Be a live member of a group, with partitions assigned. The topic must have a message."""
    consumer = Consumer({**settings, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    try:
        consumer.subscribe([topic])
        assert wait_until(lambda: consumer.poll(0.2) is not None and bool(consumer.assignment()), seconds=2 * SECONDS)
        yield
    finally:
        consumer.close()
