"""Checkpoints: the last batch of each shard that is in Kafka, written in the batch's own transaction.

Other programs may write to the checkpoint topic, and may guess or copy every field of a checkpoint. So each one is
signed with a key that only Postgres stores. The relay ignores records without that signature. The epoch is signed and
not compared: signed checkpoints of a higher epoch show that the database was restored to an earlier time.
"""

import hmac
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    DescribeClusterResult,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.broker_errors import LEADER_UNAVAILABLE, first_answer
from workorders.kafka.client.connection_errors import ConnectionErrors
from workorders.kafka.client.new_client import assigned_consumer, new_client, next_message
from workorders.kafka.exceptions import KafkaUnavailableError
from workorders.outbox.store.leases import BUCKETS

log: Final = logging.getLogger(__name__)

_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.2
_FIRST_WINDOW: Final = 200
"""Offsets before the end that are read first. A checkpoint takes two, with the record that ends its transaction."""
_POLICY: Final = "cleanup.policy"
_MAX_REPLICAS: Final = 3
_UNKNOWN: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_FORBIDDEN: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_TRANSIENT: Final = LEADER_UNAVAILABLE | _UNKNOWN | {KafkaError._UNKNOWN_PARTITION, KafkaError._TRANSPORT}


class CheckpointTopicError(ConfigurationError):
    """Checkpoints would not last in the topic, or a shard has no partition in it; nothing was sent."""

    error_code = "WO-CHECKPOINT-TOPIC"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The record of a batch that is in Kafka."""

    topic: str
    partition: int
    key: bytes
    value: bytes


class Checkpoints:
    """The checkpoints of one outbox. Each shard has its own partition, so that none waits for another's transaction."""

    def __init__(self, settings: Mapping[str, Any], topic: str, outbox_id: str, key: bytes) -> None:
        self._settings = dict(settings)
        self._topic = topic
        self._outbox_id = outbox_id
        self._signing_key = key
        self._connections = ConnectionErrors()
        self._admin = new_client(AdminClient, {"log_level": 2, **self._settings, "error_cb": self._connections})

    def checkpoint(self, shard: int, batch: int, epoch: int) -> Checkpoint:
        """Return the checkpoint of a batch."""
        words = {"outbox": self._outbox_id, "shard": shard, "batch": batch, "epoch": epoch}
        signature = hmac.digest(self._signing_key, orjson.dumps(words), "sha256").hex()
        return Checkpoint(self._topic, shard, self._key(shard), orjson.dumps({**words, "signature": signature}))

    def batch_of(self, shard: int, value: bytes | None) -> int | None:
        """Return the number of the batch in a checkpoint; None unless this outbox wrote it for this shard."""
        try:
            words = orjson.loads(value or b"")
            batch, epoch = words["batch"], words["epoch"]
        except (ValueError, TypeError, KeyError):
            return None
        if not isinstance(batch, int) or not isinstance(epoch, int):
            return None
        written = self.checkpoint(shard, batch, epoch).value
        return batch if hmac.compare_digest(written, value or b"") else None

    def ensure_topic(self) -> tuple[str, str]:
        """Create the topic if it does not exist, and return the ids of its cluster and its own.

        Raises:
            CheckpointTopicError: the topic has too few partitions, or is not compacted.
            KafkaRefusedError: the cluster refused the login.
            KafkaUnavailableError: the cluster did not answer, or refuses.
        """
        topic = self._topic
        try:
            servers = self._settings.get("bootstrap.servers", "")
            cluster = first_answer(servers, self._connections, self._describe_cluster, self._admin.poll, _SECONDS)
            found = self._describe_topic()
            if found is None:
                found = self._create_topic(new_topic(topic, brokers=len(cluster.nodes)))
            policy = self._cleanup_policy()
        except KafkaException as error:
            raise KafkaUnavailableError(
                f"The topic {topic}, in which the outbox keeps its checkpoints, could not be described or created: "
                f"{error.args[0].str()}. Nothing was sent; create it with {BUCKETS} partitions and "
                f"{_POLICY}=compact, or let the relay create it."
            ) from error
        _require_durable(topic, len(found.partitions), policy)
        return str(cluster.cluster_id), str(found.topic_id)

    def last(self, shard: int) -> int | None:
        """Return the number of the last batch of a shard that is in Kafka; None if there is none.

        The shard's older producers must have been fenced, so that none of them can commit another batch.

        Raises:
            KafkaUnavailableError: the cluster did not answer in time.
        """
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                return self._last(TopicPartition(self._topic, shard))
            except KafkaException as error:
                # A topic that was just created, or whose leader moves, answers so for a moment.
                if error.args[0].code() not in _TRANSIENT or time.monotonic() > deadline:
                    raise KafkaUnavailableError(
                        f"The checkpoint of shard {shard} in topic {self._topic} could not be read: "
                        f"{error.args[0].str()}. Nothing was sent."
                    ) from error
                time.sleep(_POLL_SECONDS)

    def _last(self, place: TopicPartition) -> int | None:
        low, end = self._ends(place)
        window = _FIRST_WINDOW
        while True:
            start = max(low, end - window)
            found = self._last_between(place, start, end)
            if found is not None or start == low:
                return found
            window *= 10

    def _key(self, shard: int) -> bytes:
        return f"{self._outbox_id}/{shard}".encode()

    def _ends(self, place: TopicPartition) -> tuple[int, int]:
        """Return the first and the next offset of the partition, once no transaction is open in it."""
        deadline = time.monotonic() + _SECONDS
        while True:
            low = self._offset(place, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)
            end = self._offset(place, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
            if self._offset(place, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED) >= end:
                return low, end
            if time.monotonic() > deadline:
                raise KafkaUnavailableError(
                    f"Partition {place.partition} of topic {self._topic} has an open transaction that does not end; "
                    f"nothing was sent. Only the relays of one outbox may write to that topic."
                )
            time.sleep(_POLL_SECONDS)

    def _offset(self, place: TopicPartition, spec: OffsetSpec, isolation: IsolationLevel) -> int:
        answer = _answer(
            self._admin.list_offsets({place: spec}, isolation_level=isolation, request_timeout=_SECONDS), place
        )
        offset = int(answer.offset)
        if offset < 0:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return offset

    def _last_between(self, place: TopicPartition, start: int, end: int) -> int | None:
        if start >= end:
            return None
        consumer = assigned_consumer(
            {"log_level": 2, **self._settings}, TopicPartition(place.topic, place.partition, start)
        )
        key, found, foreign = self._key(place.partition), None, 0
        deadline = time.monotonic() + _SECONDS
        try:
            while time.monotonic() < deadline:
                message = next_message(consumer, _POLL_SECONDS)
                if message is None:
                    continue
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    if foreign:
                        log.warning(
                            "Topic %s, partition %s: %s records have the key of this outbox's checkpoints but not its "
                            "signature. They were ignored. Allow only the relays to write to that topic.",
                            place.topic,
                            place.partition,
                            foreign,
                        )
                    return found
                if error is not None:
                    raise KafkaException(error)
                if message.key() != key:
                    continue
                batch = self.batch_of(place.partition, message.value())
                # The highest, because numbers grow: a copy of an older checkpoint must not count as the last one.
                found = found if batch is None else max(found or 0, batch)
                foreign += batch is None
        finally:
            consumer.close()
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def _create_topic(self, topic: NewTopic) -> Any:
        """Create the topic, and describe it once the brokers, which learn of it one after the other, know it."""
        try:
            _answer(self._admin.create_topics([topic], operation_timeout=_SECONDS), topic.topic)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        deadline = time.monotonic() + _SECONDS
        while (found := self._describe_topic()) is None:
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            time.sleep(_POLL_SECONDS)
        return found

    def _describe_cluster(self, limit: float) -> DescribeClusterResult:
        found: DescribeClusterResult = self._admin.describe_cluster(request_timeout=limit).result(_SECONDS)
        return found

    def _describe_topic(self) -> Any:
        try:
            # Not by a producer's request for the topic, which could create one with the cluster's defaults.
            topics = TopicCollection([self._topic])
            return _answer(self._admin.describe_topics(topics, request_timeout=_SECONDS), self._topic)
        except KafkaException as error:
            if error.args[0].code() in _UNKNOWN:
                return None
            raise

    def _cleanup_policy(self) -> str | None:
        """Return how the topic is cleaned; None if we may not know."""
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        try:
            configuration = _answer(self._admin.describe_configs([resource], request_timeout=_SECONDS), resource)
            return str(configuration[_POLICY].value)
        except KafkaException as error:
            if error.args[0].code() in _FORBIDDEN:
                return None
            raise


def _answer(answers: dict[Any, Any], key: Any) -> Any:
    """Return the answer about one thing, or raise its error.

    No variable here or in a caller keeps the futures: the error of one has the traceback, which has those variables. In
    such a cycle, the client would end in a garbage collection; see `TransactionalProducer`.
    """
    try:
        return answers[key].result(_SECONDS)
    finally:
        del answers


def new_topic(topic: str, *, brokers: int) -> NewTopic:
    """Return the topic to create: it survives the loss of a broker, independent of the cluster's defaults."""
    replicas = min(_MAX_REPLICAS, brokers)
    durable = {"min.insync.replicas": "2"} if replicas == _MAX_REPLICAS else {}
    return NewTopic(topic, BUCKETS, replication_factor=replicas, config={_POLICY: "compact", **durable})


def _require_durable(topic: str, partitions: int, policy: str | None) -> None:
    faults = []
    if partitions < BUCKETS:
        faults.append(f"has {partitions} partitions and needs {BUCKETS}, one for each possible shard")
    if policy not in {"compact", None}:
        faults.append(f"has {_POLICY}={policy} and needs compact: without its checkpoint, a batch can be sent twice")
    if faults:
        raise CheckpointTopicError(
            f"The topic {topic}, in which the outbox keeps its checkpoints, {' and '.join(faults)}. Nothing was sent; "
            f"alter the topic, or set another one as `checkpoint_topic`."
        )
