"""Sends batches to Kafka, each in a transaction with its checkpoint."""

from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from workorders.kafka.client.broker_errors import FORBIDDEN, ConnectionErrors, refused_error, wait_for_answer
from workorders.kafka.client.new_client import new_client
from workorders.kafka.exceptions import KafkaUnavailableError
from workorders.outbox.relay.checkpoints import Checkpoint
from workorders.outbox.relay.definition import RelayDefinition
from workorders.outbox.store.backlog import OutboxRow

SECONDS: Final = 60.0
"""Limit of a transaction, and of every wait for Kafka."""
_MESSAGE_SHARE: Final = 0.75
"""Share of that time after which a message times out: before its transaction, so that its topic is known."""
_FLUSH_SECONDS: Final = 1.0
_EXCEPTION_LOST: Final = "returned NULL without setting an exception"
_QUEUE_FULL_SECONDS: Final = 0.1
_OVERHEAD_BYTES: Final = 4096
_ANY_PARTITION: Final = -1
_NOW: Final = 0
_TIMED_OUT: Final = (
    "it did not take them in time, while others were taken; look at the leaders and replicas of its partitions"
)
_OF_MESSAGE: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._INVALID_ARG,
        KafkaError._BAD_MSG,
    }
)
"""Codes of errors by which the message itself is rejected for good."""
_OF_TOPIC: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""Codes of errors by which a topic takes no message now."""


@dataclass(frozen=True, slots=True)
class RejectedMessage:
    """One message that Kafka never takes; nothing of its batch is visible."""

    row: OutboxRow
    reason: str


@dataclass(frozen=True, slots=True)
class DeliveryFailures:
    """Topics with messages that were not delivered, each with the reason; nothing of the batch is visible."""

    #: A message of these topics was rejected; which one is unknown.
    of_messages: dict[str, str] = field(default_factory=dict)
    #: These topics take no message now.
    of_topics: dict[str, str] = field(default_factory=dict)


Rejection = RejectedMessage | DeliveryFailures


class ProducerFencedOrLostError(KafkaUnavailableError):
    """The batch may be in Kafka or not: the producer must be replaced and the checkpoint read."""

    def __init__(self, sentence: str, failures: DeliveryFailures | None = None) -> None:
        super().__init__(sentence)
        #: What was rejected before the producer was lost, because a rejection may have caused that.
        self.failures = failures


class TransactionalProducer:
    """One producer, usable until the first `ProducerFencedOrLostError`, which each method may raise."""

    def __init__(self, definition: RelayDefinition, settings: Mapping[str, Any], transactional_id: str) -> None:
        """Start the producer and fence every older one of the same transactional id.

        Raises:
            ClientSettingsError: the producer cannot start with these settings.
            KafkaRefusedError: the cluster refused the client.
            KafkaUnavailableError: the cluster did not answer in time.
        """
        self._definition = definition
        self._errors: dict[str, KafkaError] = {}
        #: What was sent last, and the topic of its checkpoint.
        self._rows: Sequence[OutboxRow] = ()
        self._checkpoint_topic: str | None = None
        servers, connections = settings.get("bootstrap.servers", ""), ConnectionErrors()
        self._producer = new_client(
            Producer,
            {
                "log_level": 2,
                **settings,
                "error_cb": connections,
                "enable.idempotence": True,
                "acks": "all",
                # Java's default for messages with a key, so that every client puts a key into the same partition.
                "partitioner": "murmur2_random",
                "compression.type": definition.compression,
                # The broker stores the start of a batch while the rest is produced; the end sends at once what lingers.
                "linger.ms": 5,
                "batch.num.messages": 10_000,
                "message.max.bytes": definition.max_message_bytes + _OVERHEAD_BYTES,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 1_048_576,
                "message.timeout.ms": int(_MESSAGE_SHARE * SECONDS * 1000),
                # Deliveries need not be reported one by one: a commit covers all of them.
                "delivery.report.only.error": True,
                # No reference to this object: in a cycle, a client that is no longer used would end in a garbage
                # collection, and that hangs in a forked process, which lacks the client's threads. Airflow's listener
                # for OpenLineage forks after a task.
                "on_delivery": partial(_record_error, self._errors),
                "transactional.id": transactional_id,
                "transaction.timeout.ms": int(SECONDS * 1000),
            },
        )
        try:
            # A client drops its first broker once it knows the cluster. Half of the time, that loses its request for
            # the coordinator, repeated after half a second. Requesting a single topic does not always help.
            wait_for_answer(servers, self._producer, connections, SECONDS)
            self._producer.init_transactions(SECONDS)
        except KafkaException as error:
            if error.args[0].code() in FORBIDDEN:
                right = f"Write on transactional id {transactional_id}"
                raise refused_error(servers, error.args[0], right) from error
            raise _lost(f"its producer {transactional_id} could not start", error.args[0]) from error

    def send(self, rows: Sequence[OutboxRow], checkpoint: Checkpoint) -> Rejection | None:
        """Send rows in one transaction with their checkpoint; return what was rejected, if anything.

        After a rejection nothing of it is visible to readers of committed messages. After an error it may be.
        """
        self._errors.clear()
        self._rows, self._checkpoint_topic = rows, None
        what = "a batch was not sent to its end"
        try:
            self._producer.begin_transaction()
            rejected = self._produce(rows)
            if rejected is not None:
                self._producer.abort_transaction(SECONDS)
                return rejected
            # A message that a broker rejects while the commit is under way leaves a gap in the sequence numbers of its
            # partition, and costs the producer (seen with librdkafka 2.16).
            self._producer.flush(_FLUSH_SECONDS)
            self._checkpoint_topic = checkpoint.topic
            self._put(checkpoint.topic, checkpoint.value, checkpoint.key, checkpoint.partition)
            return self._commit()
        except KafkaException as error:
            raise _lost(what, error.args[0], self._failures()) from error
        except SystemError as error:
            # The client raises a fatal error, such as that of a fenced producer, and then still calls back for each
            # message: Python notices the pending exception there, or it is lost there (seen with confluent-kafka 2.16).
            if isinstance(error.__cause__, KafkaException):
                fatal = error.__cause__.args[0]
            elif _EXCEPTION_LOST in str(error):
                fatal = KafkaError(KafkaError._FATAL, "the client lost the error of its producer")
            else:
                raise
            raise _lost(what, fatal, self._failures()) from error

    def _produce(self, rows: Iterable[OutboxRow]) -> RejectedMessage | None:
        produce, put, header = self._producer.produce, self._put, self._definition.event_id_header
        for row in rows:
            _, topic, key, value, headers, partition, timestamp_ms, event_id, _ = row
            try:
                if headers is None and partition is None and timestamp_ms is None and header is None:
                    try:  # nearly always without `_put`, which costs as much as the call itself
                        produce(topic, value, key)
                    except BufferError:
                        put(topic, value, key)
                else:
                    put(
                        topic,
                        value,
                        key,
                        _ANY_PARTITION if partition is None else partition,
                        timestamp=timestamp_ms or _NOW,
                        headers=record_headers(headers, header, event_id),
                    )
            except ValueError as error:
                return RejectedMessage(row, f"its headers cannot be read: {error}")
            except KafkaException as error:
                if error.args[0].code() not in _OF_MESSAGE:
                    raise
                return RejectedMessage(row, error.args[0].str())
        return None

    def _put(self, *record: Any, **more: Any) -> None:
        while True:
            try:
                self._producer.produce(*record, **more)
            except BufferError:
                # librdkafka's queue is full. Its messages are delivered or time out, so there will be space.
                self._producer.poll(_QUEUE_FULL_SECONDS)
            else:
                return

    def _commit(self) -> DeliveryFailures | None:
        try:
            self._producer.commit_transaction(SECONDS)
        except KafkaException as error:
            # Only what failed before the commit was requested is certainly not in Kafka.
            failures = self._failures()
            if not error.args[0].txn_requires_abort() or failures is None:
                raise
            self._producer.abort_transaction(SECONDS)
            return failures
        return None

    def _failures(self) -> DeliveryFailures | None:
        found = DeliveryFailures()
        for topic, error in self._errors.items():
            if topic == self._checkpoint_topic:
                # No message caused it, and a hold of this topic would never end.
                continue
            if error.code() in _OF_MESSAGE:
                found.of_messages[topic] = error.str()
            elif error.code() in _OF_TOPIC:
                found.of_topics[topic] = error.str()
            elif error.code() == KafkaError._MSG_TIMED_OUT and self._is_other_topic_delivered():
                # Its topic lacks a leader or replicas: if Kafka was down, no topic's messages would be delivered.
                found.of_topics[topic] = _TIMED_OUT
        return found if found.of_messages or found.of_topics else None

    def _is_other_topic_delivered(self) -> bool:
        """Return whether the cluster took the messages of any other topic, so that it is not down."""
        sent = {row.topic for row in self._rows} | ({self._checkpoint_topic} if self._checkpoint_topic else set())
        return not sent <= set(self._errors)


def record_headers(
    headers: Sequence[Sequence[Any]] | None, event_id_header: str | None, event_id: str | None
) -> list[tuple[str, bytes | str | None]]:
    """Return the headers in their order, followed by the event's id if a header is named for it."""
    found = [
        # PostgreSQL also accepts further fields next to `base64`, or a number as its value.
        (name, b64decode(str(value["base64"])) if isinstance(value, dict) else value)
        for name, value in headers or ()
    ]
    if event_id_header is not None:
        found.append((event_id_header, event_id))
    return found


def _record_error(errors: dict[str, KafkaError], error: KafkaError | None, message: Message) -> None:
    if error is None or error.code() in {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}:
        return
    errors.setdefault(str(message.topic()), error)


def _lost(what: str, error: KafkaError, failures: DeliveryFailures | None = None) -> ProducerFencedOrLostError:
    return ProducerFencedOrLostError(
        f"The relay lost its connection to Kafka; {what}: {error.str()}. Whether it was sent is read from the "
        f"checkpoint before anything is sent again.",
        failures,
    )
