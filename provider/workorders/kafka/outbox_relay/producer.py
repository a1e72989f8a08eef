"""Sends batches to Kafka, each in a transaction with its marker."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from workorders.kafka.client.new_client import new_client
from workorders.kafka.exceptions import KafkaUnavailableError
from workorders.kafka.outbox_relay.checkpoints import Marker
from workorders.kafka.outbox_relay.definition import RelayDefinition
from workorders.kafka.outbox_relay.delivery_errors import Refusal, Suspicion, is_late, is_of_message, is_of_topic
from workorders.kafka.outbox_relay.headers import record_headers
from workorders.outbox.store.rows import ROW_TOPIC, OutboxRow, Row

SECONDS: Final = 60.0
"""Limit of a transaction, and of every wait for Kafka."""
_MESSAGE_SHARE: Final = 0.75
"""Of that time, after which a message is given up: before its transaction, so that it is known which topic it was."""

_HASTE_SECONDS: Final = 1.0
_ROOM_SECONDS: Final = 0.1
_OVERHEAD_BYTES: Final = 4096
_ANY_PARTITION: Final = -1
_NOW: Final = 0
_LATE: Final = (
    "it did not take them in time, while others were taken; look at the leaders and replicas of its partitions"
)


class SenderLostError(KafkaUnavailableError):
    """It is not known what became of the batch: the producer must be replaced and the marker read."""

    def __init__(self, sentence: str, suspicion: Suspicion | None = None) -> None:
        super().__init__(sentence)
        #: What was refused before the producer was lost, for a refusal may be what it stumbled over.
        self.suspicion = suspicion


class Sender:
    """One producer, good until the first error that leaves something unknown."""

    def __init__(self, definition: RelayDefinition, settings: Mapping[str, Any], transactional_id: str) -> None:
        """Start the producer and fence every older one of the same transactional id.

        Raises:
            ClientSettingsError: the producer cannot start with these settings.
            KafkaUnavailableError: the cluster did not answer in time.
        """
        self._definition = definition
        self._failures: dict[str, KafkaError] = {}
        #: What was sent last, and the topic of its marker.
        self._rows: Sequence[Row] = ()
        self._marker_topic: str | None = None
        self._producer = new_client(
            Producer,
            {
                "log_level": 2,
                **settings,
                "enable.idempotence": True,
                "acks": "all",
                # Java's default for messages with a key, so that consumers find a key where all others put it.
                "partitioner": "murmur2_random",
                "compression.type": definition.compression,
                # The end of a batch sends at once whatever lingers; until then, large requests cost the broker less.
                "linger.ms": 100,
                "batch.num.messages": 10_000,
                "message.max.bytes": self._largest_message(),
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 1_048_576,
                "message.timeout.ms": int(_MESSAGE_SHARE * SECONDS * 1000),
                # What was delivered need not be said one by one: a commit, or an empty queue, says it for all.
                "delivery.report.only.error": True,
                "on_delivery": self._note_failure,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": int(SECONDS * 1000),
            },
        )
        try:
            # A client begins with a broker that it drops as soon as it knows the cluster, and every other time the
            # question for the coordinator goes with it; it would ask again after half a second. To ask for a single
            # topic does not help each time.
            self._producer.list_topics(timeout=SECONDS)
            self._producer.init_transactions(SECONDS)
        except KafkaException as error:
            raise _lost(f"its producer {transactional_id} could not start", error.args[0]) from error

    def _largest_message(self) -> int:
        limits = [given.max_message_bytes or 0 for given in self._definition.topics.values()]
        return max([self._definition.max_message_bytes, *limits]) + _OVERHEAD_BYTES

    def fill(self, rows: Sequence[Row]) -> Refusal | None:
        """Begin to send rows, in a transaction that is open until `commit`; return what was refused at once.

        After a refusal the transaction is over, and nothing of it is visible to readers of committed messages.

        Raises:
            SenderLostError: this sender is of no more use.
        """
        self._failures.clear()
        self._rows, self._marker_topic = rows, None
        with self._losing("a batch was not sent to its end"):
            self._producer.begin_transaction()
            refused = self._produce(rows)
            if refused is not None:
                self._producer.abort_transaction(SECONDS)
            return refused

    def hasten(self) -> None:
        """Do what a commit begins with: do not wait for more messages that could go along, and let the cluster answer.

        Whether all of it was delivered is found out by `commit`.
        """
        with self._losing("a batch was not sent to its end"):
            self._producer.flush(_HASTE_SECONDS)

    def commit(self, marker: Marker) -> Suspicion | None:
        """End what `fill` began, with the marker in the same transaction; return what was refused, if anything was.

        After a refusal nothing of the batch is visible to readers of committed messages.

        Raises:
            SenderLostError: it is not known what became of the batch; this sender is of no more use.
        """
        with self._losing("a batch was not sent to its end"):
            self._marker_topic = marker.topic
            self._mark(marker)
            return self._commit()

    def abandon(self) -> None:
        """Take back what `fill` began.

        Raises:
            SenderLostError: this sender is of no more use; the cluster itself ends the transaction.
        """
        with self._losing("a batch could not be taken back"):
            self._producer.abort_transaction(SECONDS)

    @contextmanager
    def _losing(self, what: str) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise _lost(what, error.args[0], self._suspicion()) from error

    def _produce(self, rows: Iterable[Row]) -> Refusal | None:
        produce, header = self._producer.produce, self._definition.event_id_header
        for row in rows:
            _, topic, key, value, headers, partition, timestamp_ms, event_id, _ = row
            while True:
                try:
                    if headers is None and partition is None and timestamp_ms is None and header is None:
                        produce(topic, value, key)
                    else:
                        produce(
                            topic,
                            value,
                            key,
                            _ANY_PARTITION if partition is None else partition,
                            timestamp=timestamp_ms or _NOW,
                            headers=record_headers(headers, header, event_id),
                        )
                    break
                except BufferError:
                    # librdkafka's queue is full. What is in it is answered or given up in time, so there will be room.
                    self._producer.poll(_ROOM_SECONDS)
                except ValueError as error:
                    return Refusal(OutboxRow._make(row), f"its headers cannot be read: {error}")
                except KafkaException as error:
                    if not is_of_message(error.args[0]):
                        raise
                    return Refusal(OutboxRow._make(row), error.args[0].str())
        return None

    def _mark(self, marker: Marker) -> None:
        while True:
            try:
                self._producer.produce(marker.topic, marker.value, marker.key, marker.partition)
            except BufferError:
                self._producer.poll(_ROOM_SECONDS)
            else:
                return

    def _commit(self) -> Suspicion | None:
        try:
            self._producer.commit_transaction(SECONDS)
        except KafkaException as error:
            # Only what failed before the commit was asked for is certainly not there.
            suspicion = self._suspicion()
            if not error.args[0].txn_requires_abort() or suspicion is None:
                raise
            self._producer.abort_transaction(SECONDS)
            return suspicion
        return None

    def _suspicion(self) -> Suspicion | None:
        found = Suspicion()
        for topic, error in self._failures.items():
            if topic == self._marker_topic:
                # Nobody's message is to blame, and a hold of it would end with no message of it.
                continue
            if is_of_message(error):
                found.messages[topic] = error.str()
            elif is_of_topic(error):
                found.topics[topic] = error.str()
            elif is_late(error) and self._is_other_taken():
                found.topics[topic] = _LATE
        return found if found.messages or found.topics else None

    def _is_other_taken(self) -> bool:
        """Say whether the cluster took what else was sent: then it is not away."""
        asked = {row[ROW_TOPIC] for row in self._rows} | ({self._marker_topic} if self._marker_topic else set())
        return not asked <= set(self._failures)

    def _note_failure(self, error: KafkaError | None, message: Message) -> None:
        if error is None or error.code() in {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}:
            return
        self._failures.setdefault(str(message.topic()), error)


def _lost(what: str, error: KafkaError, suspicion: Suspicion | None = None) -> SenderLostError:
    return SenderLostError(
        f"The relay lost its connection to Kafka; {what}: {error.str()}. What became of it is read "
        f"from the markers before anything is sent again.",
        suspicion,
    )
