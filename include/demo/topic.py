"""The topic as a plain Kafka client sees it: its messages, its offsets, and those of a group."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from demo.errors import DemoError
from demo.health_events import Headers
from demo.producer import SEVERE
from local_stack.waiting import wait_until

Settings = Mapping[str, str | int | float | bool]
Place = tuple[int, int]
"""Partition and offset of a message."""

_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Received:
    """One message as a reader gets it."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


class Topic:
    """A topic and the consumer group whose offsets are watched. The group is not joined."""

    def __init__(self, settings: Settings, name: str, group: str) -> None:
        self._settings = {**settings, "log_level": SEVERE}
        self._admin = AdminClient(self._settings)
        # A consumer that subscribes to nothing joins no group. The admin client's own question for a group's offsets
        # ends the process by a segmentation fault while the broker loads the group (librdkafka 2.16).
        self._group = Consumer({**self._settings, "group.id": group, "enable.auto.commit": False})
        self.name = name

    def create(self, partitions: int) -> None:
        """Create the topic, and wait until all its partitions and the group answer.

        Raises:
            KafkaException: the broker refuses it.
            DemoError: they do not.
        """
        for future in self._admin.create_topics([NewTopic(self.name, partitions, 1)]).values():
            future.result(_SECONDS)
        if not wait_until(lambda: self._answers(partitions), seconds=_SECONDS):
            raise DemoError(f"Topic {self.name}, or the offsets of its group, did not answer within {_SECONDS:g} s.")

    def last_stable_offsets(self) -> dict[int, int]:
        """Return, by partition, where readers of committed messages find the end now."""
        wanted = {partition: OffsetSpec.latest() for partition in self._partitions()}
        asked = self._admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_SECONDS
        )
        return {partition.partition: future.result(_SECONDS).offset for partition, future in asked.items()}

    def group_offsets(self) -> dict[int, int]:
        """Return what the group has committed, by partition; 0 where it has not yet."""
        committed = self._group.committed(self._partitions(), _SECONDS)
        return {partition.partition: max(partition.offset, 0) for partition in committed}

    def read(self, isolation: Literal["read_committed", "read_uncommitted"]) -> dict[Place, Received]:
        """Return all messages from the first to the last, with or without those of aborted transactions.

        Raises:
            KafkaException: the broker refuses.
            DemoError: it does not answer.
        """
        consumer = Consumer(
            {
                **self._settings,
                "group.id": "demo-check",  # needed by the client, and never committed to
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
            }
        )
        try:
            return self._read(consumer)
        finally:
            consumer.close()

    def _read(self, consumer: Consumer) -> dict[Place, Received]:
        unread = {partition.partition for partition in self._partitions()}
        consumer.assign([TopicPartition(self.name, partition, 0) for partition in unread])
        received: dict[Place, Received] = {}
        while unread:
            message = consumer.poll(_SECONDS)
            if message is None:
                raise DemoError(f"Topic {self.name} gave a reader nothing for {_SECONDS:g} s.")
            partition, offset = cast("Place", (message.partition(), message.offset()))
            error = message.error()
            if error is None:
                received[partition, offset] = _received(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                unread.remove(partition)
            else:
                raise KafkaException(error)
        return received

    def _answers(self, partitions: int) -> bool:
        # A topic that was created is known before its partitions have a leader, and the first question for any group's
        # offsets makes the broker create the topic that holds them. Several errors report that.
        try:
            return len(self.last_stable_offsets()) == len(self.group_offsets()) == partitions
        except KafkaException:
            return False

    def _partitions(self) -> list[TopicPartition]:
        metadata = self._admin.list_topics(self.name, _SECONDS).topics[self.name]
        return [TopicPartition(self.name, partition) for partition in metadata.partitions]


def _received(message: Message) -> Received:
    headers = cast("Headers | None", message.headers())
    return Received(message.key(), message.value(), headers or [], message.timestamp()[1])
