"""Topics of a real broker, and producers that know nothing of work orders."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewPartitions, NewTopic

from local_stack.waiting import wait_until

SECONDS = 30.0


class Topics:
    """Makes, fills, cuts and deletes topics."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = dict(settings)
        self._admin = AdminClient(self.settings)
        self._producer = Producer({**self.settings, "linger.ms": 5})

    def create(self, name: str, partitions: int = 1, *, config: Mapping[str, str] | None = None) -> str:
        """Make a topic, wait until it can be asked about, and return its name.

        It keeps its messages: those with a time of years ago would be gone at the broker's next look, which it takes
        every five minutes.
        """
        settings = {"retention.ms": "-1", **(config or {})}
        self._admin.create_topics([NewTopic(name, partitions, config=settings)])[name].result(SECONDS)
        assert wait_until(lambda: self._answers(name, partitions), seconds=SECONDS)
        return name

    def create_on(self, broker: int, name: str) -> str:
        """Make a topic whose only replica is on this broker, and return its name."""
        wanted = NewTopic(name, 1, replica_assignment=[[broker]])
        self._admin.create_topics([wanted])[name].result(SECONDS)
        assert wait_until(lambda: self._answers(name, 1), seconds=SECONDS)
        return name

    def has_leader(self, name: str) -> bool:
        """Return whether the topic's first partition has a leader."""
        return bool(self._admin.list_topics(name, timeout=SECONDS).topics[name].partitions[0].leader >= 0)

    def grow(self, name: str, partitions: int) -> None:
        """Add partitions."""
        self._admin.create_partitions([NewPartitions(name, partitions)])[name].result(SECONDS)
        assert wait_until(lambda: self._answers(name, partitions), seconds=SECONDS)

    def delete(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        self._admin.delete_topics([name])[name].result(SECONDS)
        assert wait_until(lambda: not self.exists(name), seconds=SECONDS)

    def exists(self, name: str) -> bool:
        """Return whether there is a topic of that name."""
        return name in self._admin.list_topics(timeout=SECONDS).topics

    def first_offsets(self, name: str) -> dict[int, int]:
        """Return the beginning of each partition's log."""
        places = {TopicPartition(name, number): OffsetSpec.earliest() for number in self._partitions(name)}
        answers = self._admin.list_offsets(places)
        return {place.partition: answer.result(SECONDS).offset for place, answer in answers.items()}

    def delete_before(self, name: str, offset: int, partition: int = 0) -> None:
        """Move the log's start, as retention does."""
        for future in self._admin.delete_records([TopicPartition(name, partition, offset)]).values():
            future.result(SECONDS)

    def produce(
        self, name: str, values: Iterable[bytes | None], partition: int = 0, *, timestamp_ms: int = 0, **record: Any
    ) -> None:
        """Write messages and wait until the broker has them."""
        for value in values:
            self._send(self._producer, name, value, partition, timestamp=timestamp_ms, **record)
        assert self._producer.flush(SECONDS) == 0

    def produce_committed(self, name: str, values: Iterable[bytes | None], partition: int = 0) -> None:
        """Write a transaction, whose commit takes an offset behind its messages."""
        producer = self._begin(name, values, partition)
        with self._marker(name, partition):
            producer.commit_transaction(SECONDS)

    def produce_aborted(self, name: str, values: Iterable[bytes | None], partition: int = 0) -> None:
        """Write a transaction and abort it; its messages and the marker keep their offsets."""
        producer = self._begin(name, values, partition)
        with self._marker(name, partition):
            producer.abort_transaction(SECONDS)

    @contextmanager
    def open_transaction(self, name: str, values: Iterable[bytes | None], partition: int = 0) -> Iterator[None]:
        """Hold a transaction open with some messages in it, and abort it at the end."""
        producer = self._begin(name, values, partition)
        try:
            yield
        finally:
            with self._marker(name, partition):
                producer.abort_transaction(SECONDS)

    def is_transaction_open(self, name: str) -> bool:
        """Return whether the last stable offset of some partition is before its end."""
        return self._ends(name, IsolationLevel.READ_COMMITTED) != self._ends(name, IsolationLevel.READ_UNCOMMITTED)

    @contextmanager
    def _marker(self, name: str, partition: int) -> Iterator[None]:
        """Wait until the end of a transaction has its place in the log.

        The coordinator answers the producer before it writes the markers, and a message sent meanwhile would come
        before them.
        """
        before = self._end(name, partition)
        yield
        assert wait_until(lambda: self._end(name, partition) > before, seconds=SECONDS)

    def _ends(self, name: str, isolation: IsolationLevel) -> dict[int, int]:
        places = {TopicPartition(name, number): OffsetSpec.latest() for number in self._partitions(name)}
        answers = self._admin.list_offsets(places, isolation_level=isolation)
        return {place.partition: answer.result(SECONDS).offset for place, answer in answers.items()}

    def _end(self, name: str, partition: int) -> int:
        place = TopicPartition(name, partition)
        return int(self._admin.list_offsets({place: OffsetSpec.latest()})[place].result(SECONDS).offset)

    def _begin(self, name: str, values: Iterable[bytes | None], partition: int) -> Producer:
        producer = Producer({**self.settings, "transactional.id": uuid4().hex, "linger.ms": 0})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        for value in values:
            self._send(producer, name, value, partition)
        assert producer.flush(SECONDS) == 0
        return producer

    def _answers(self, name: str, partitions: int) -> bool:
        """Whether every partition has a leader who knows that it is one: the metadata contain it a moment earlier."""
        places = {TopicPartition(name, number): OffsetSpec.latest() for number in self._partitions(name)}
        try:
            return len(places) == partitions and all(
                answer.result(SECONDS).offset >= 0 for answer in self._admin.list_offsets(places).values()
            )
        except KafkaException:
            return False

    def _partitions(self, name: str) -> Mapping[int, Any]:
        found = self._admin.list_topics(name, timeout=SECONDS).topics[name].partitions
        return {number: partition for number, partition in found.items() if partition.leader >= 0}

    @staticmethod
    def _send(producer: Producer, name: str, value: bytes | None, partition: int, **record: Any) -> None:
        while True:
            try:
                producer.produce(name, value, partition=partition, **record)
            except BufferError:
                producer.poll(0.1)
            else:
                producer.poll(0)
                return
