"""Checkpoints: the last batch of each shard that is in Kafka, written in the batch's own transaction.

Other programs may write to the checkpoint topic, and may guess or copy every field of a checkpoint. So each one is
signed with a key that only Postgres stores. The relay ignores records without that signature. The epoch is signed and
not compared: signed checkpoints of a higher epoch show that the database was restored to an earlier time.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import TopicDescription  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.range_consumer import read_range
from workorders.kafka.exceptions import KafkaUnavailableError, TopicForbiddenError, UnknownTopicError
from workorders.kafka.partitions import OffsetRange, PartitionOffsets
from workorders.outbox.store.leases import BUCKETS

log: Final = logging.getLogger(__name__)

_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.2
_FIRST_WINDOW: Final = 200
"""Offsets before the end that are read first. A checkpoint takes two, with the record that ends its transaction."""
_POLICY: Final = "cleanup.policy"
_MAX_REPLICAS: Final = 3


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
        self._cluster = _Cluster(self._settings)

    def checkpoint(self, shard: int, batch: int, epoch: int) -> Checkpoint:
        """Return the checkpoint of a batch."""
        words = {"outbox": self._outbox_id, "shard": shard, "batch": batch, "epoch": epoch}
        signature = hmac.digest(self._signing_key, orjson.dumps(words), "sha256").hex()
        return Checkpoint(self._topic, shard, self._key(shard), orjson.dumps({**words, "signature": signature}))

    def batch_of(self, shard: int, value: bytes | None) -> int | None:
        """Return the number of the batch in a checkpoint; None unless this outbox wrote it for this shard."""
        try:
            words = orjson.loads(value or b"")
            batch: int = words["batch"]
            written = self.checkpoint(shard, batch, words["epoch"]).value
        except (ValueError, TypeError, KeyError):
            return None
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
            cluster_id, found, policy = run(self._cluster.ensure_topic(topic))
        except (KafkaUnavailableError, TopicForbiddenError) as error:
            raise KafkaUnavailableError(
                f"The topic {topic}, in which the outbox keeps its checkpoints, could not be described or created. "
                f"{error} Nothing was sent; create it with {BUCKETS} partitions and {_POLICY}=compact, or let the "
                f"relay create it."
            ) from error
        _require_durable(topic, len(found.partitions), policy)
        return cluster_id, str(found.topic_id)

    def last(self, shard: int) -> int | None:
        """Return the number of the last batch of a shard that is in Kafka; None if there is none.

        The shard's older producers must have been fenced, so that none of them can commit another batch.

        Raises:
            KafkaRefusedError: the cluster refused the client.
            KafkaUnavailableError: the cluster did not answer in time.
        """
        try:
            ends, window = run(self._cluster.settled_ends(self._topic, shard)), _FIRST_WINDOW
            while True:
                start = max(ends.log_start, ends.high_watermark - window)
                found = self._last_between(shard, OffsetRange(ends.partition, start, ends.high_watermark))
                if found is not None or start == ends.log_start:
                    return found
                window *= 10
        except KafkaException as error:
            raise KafkaUnavailableError(
                f"The checkpoint of shard {shard} in topic {self._topic} could not be read: {error.args[0].str()}. "
                f"Nothing was sent."
            ) from error

    def _key(self, shard: int) -> bytes:
        return f"{self._outbox_id}/{shard}".encode()

    def _last_between(self, shard: int, range_: OffsetRange) -> int | None:
        if range_.start == range_.end:
            return None
        records = read_range(self._settings, range_, range_.start)
        batches = [self.batch_of(shard, record.value) for record in records if record.key == self._key(shard)]
        own = [batch for batch in batches if batch is not None]
        if len(own) < len(batches):
            log.warning(
                "Topic %s, partition %s: %s records have the key of this outbox's checkpoints but not its "
                "signature. They were ignored. Allow only the relays to write to that topic.",
                self._topic,
                shard,
                len(batches) - len(own),
            )
        # The highest, because numbers grow: a copy of an older checkpoint must not count as the last one.
        return max(own, default=None)


class _Cluster(KafkaAdmin):
    """The cluster with the checkpoint topic."""

    async def ensure_topic(self, topic: str) -> tuple[str, TopicDescription, str | None]:
        """Create the topic if it does not exist; return its cluster's id, the topic, and how it is cleaned.

        A topic that was just created is known to the brokers one after the other.
        """
        cluster = await self._ask_one(lambda client: [client.describe_cluster(request_timeout=self._timeout)])
        deadline, is_created = time.monotonic() + _SECONDS, False
        # Not by a producer's request for the topic, which could create one with the cluster's defaults.
        while (found := (described := await self._descriptions([topic])).found.get(topic)) is None:
            error = described.errors[topic, None]
            if not isinstance(error, UnknownTopicError) or time.monotonic() > deadline:
                raise error
            if not is_created:
                await self._create(new_topic(topic, brokers=len(cluster.nodes)))
                is_created = True
            await asyncio.sleep(_POLL_SECONDS)
        return str(cluster.cluster_id), found, await self.cleanup_policy(topic)

    async def _create(self, topic: NewTopic) -> None:
        (result,) = await self._ask(lambda client: client.create_topics([topic], operation_timeout=_SECONDS).values())
        if isinstance(result, KafkaException) and result.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise self._to_domain_error(result, f"Create on topic {topic.topic}")

    async def settled_ends(self, topic: str, partition: int) -> PartitionOffsets:
        """Return the ends of a partition, once it has a leader and no transaction is open in it."""
        deadline = time.monotonic() + _SECONDS
        while True:
            answers = await self.log_ends([topic], {(topic, partition)})
            ends = answers.found.get((topic, partition))
            if ends is not None and ends.last_stable >= ends.high_watermark:
                return ends
            if time.monotonic() > deadline:
                answers.require()
                raise KafkaUnavailableError(
                    f"Partition {partition} of topic {topic} does not exist or has an open transaction that does not "
                    f"end; nothing was sent. Only the relays of one outbox may write to that topic."
                )
            await asyncio.sleep(_POLL_SECONDS)


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
