"""Relays one shard: claims a batch, sends it with its checkpoint, deletes it; after a loss, learns if it was sent."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final

from workorders.core import tracing
from workorders.core.postgres.connection import Connection
from workorders.core.trace_headers import first_header_values
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.outbox.relay.checkpoints import Checkpoints
from workorders.outbox.relay.definition import RelayDefinition
from workorders.outbox.relay.producer import (
    DeliveryFailures,
    ProducerFencedOrLostError,
    RejectedMessage,
    Rejection,
    TransactionalProducer,
)
from workorders.outbox.store import claims, holds
from workorders.outbox.store.backlog import BatchRequest, OutboxRow, is_anything_waiting
from workorders.outbox.store.claims import ClaimedBatch, settle_claims
from workorders.outbox.store.leases import Lease, record_error, renew
from workorders.outbox.store.settings import Identity, id_and_checkpoint_key, require_same_identity, save_limit

log: Final = logging.getLogger(__name__)

_MIN_WAIT: Final = 0.02
_MAX_WAIT: Final = 0.25
_MAX_PRODUCER_LOSSES: Final = 3
_MAX_SECONDS_AFTER_FAILURE: Final = 300.0
"""A relay that had to hold something ends after this time, even if there is more to send, because people see its end in
Airflow. If failures are frequent, ending with each one would cost all other messages a start each time."""
_CACHE_SECONDS: Final = 60.0
MAX_TRACED_MESSAGES: Final = 100
"""Messages with headers that are searched for traces, per batch. A batch may have thousands; a trace shows one."""


@dataclass(slots=True)
class RelayResult:
    """What a relay did."""

    messages: int = 0
    #: One sentence for each message or topic that was held.
    failures: list[str] = field(default_factory=list)


class ShardRelay:
    """Relays one shard as long as its lease lasts; raises `OutboxFencedError` if another relay has it."""

    def __init__(
        self,
        connection: Connection,
        lease: Lease,
        definition: RelayDefinition,
        kafka: Mapping[str, Any],
        result: RelayResult,
    ) -> None:
        self._connection = connection
        self._lease = lease
        self._definition = definition
        self._request = BatchRequest(
            max_messages=definition.max_messages,
            max_bytes=definition.max_bytes,
            with_event_ids=definition.event_id_header is not None,
        )
        self._result = result
        outbox_id, signing_key = id_and_checkpoint_key(connection)
        self._checkpoints = Checkpoints(kafka, definition.checkpoint_topic, outbox_id, signing_key)
        self._topics = TopicMetadataCache(KafkaAdmin(kafka), definition.checkpoint_topic)
        transactional_id = f"{definition.transactional_id_prefix}-{outbox_id}-{lease.shard}"
        self._new_producer = partial(TransactionalProducer, definition, kafka, transactional_id)
        self._producer: TransactionalProducer | None = None
        #: One after the other, without a batch that was sent in between.
        self._producer_losses = 0

    def run(self, deadline: float, stopped: Callable[[], bool]) -> None:
        """Settle what an earlier relay left, and send until nothing has waited for the `linger` of the definition.

        Raises:
            CheckpointTopicError: checkpoints would not last.
            KafkaUnavailableError: the cluster repeatedly did not answer in time.
            OutboxContradictionError: checkpoint and database contradict each other.
            OutboxIdentityError: this relay differs from the outbox's recorded identity.
        """
        definition = self._definition
        save_limit(self._connection, definition.max_message_bytes)
        cluster_id, topic_id = self._checkpoints.ensure_topic()
        identity = Identity(
            definition.shards, definition.transactional_id_prefix, cluster_id, definition.checkpoint_topic, topic_id
        )
        require_same_identity(self._connection, self._lease, identity)
        self._recover()
        wait, idle_since = _MIN_WAIT, time.monotonic()
        while not stopped() and time.monotonic() < deadline:
            if self._step():
                wait, idle_since = _MIN_WAIT, time.monotonic()
            elif time.monotonic() - idle_since >= definition.linger:
                break
            else:
                time.sleep(wait)
                wait = min(wait * 1.5, _MAX_WAIT)
            if self._result.failures:
                deadline = min(deadline, time.monotonic() + _MAX_SECONDS_AFTER_FAILURE)
        record_error(self._connection, self._lease, None)

    def _step(self) -> bool:
        """Send one batch, and hold what Kafka rejects of it; return whether there was one."""
        if not is_anything_waiting(self._connection, self._lease.buckets):
            return False
        batch = claims.claim(self._connection, self._lease, self._request)
        if batch is not None:
            self._send(batch)
        return batch is not None

    def _recover(self) -> bool:
        """Fence the shard's older producers, settle the batch that one left, and return whether it is in Kafka."""
        # The old client ends before the new one starts.
        self._producer = None
        # Fence first and read then: the other way round, an older producer could still commit in between.
        producer = self._new_producer()
        checkpoint = self._checkpoints.last(self._lease.shard)
        in_flight, is_in_kafka = settle_claims(self._connection, self._lease, checkpoint)
        if in_flight:
            became = "are in Kafka" if is_in_kafka else "are sent now"
            log.info("Shard %s: %s messages were in flight, and %s.", self._lease.shard, in_flight, became)
        self._producer = producer
        return is_in_kafka

    def _send(self, batch: ClaimedBatch) -> bool:
        """Send a batch and return True; or hold what was rejected, leave what was not sent, and return False.

        Kafka rejects a whole transaction because of one message. So a batch is sent in parts until that message is sent
        alone (bisection). What follows it waits in its table, because it may contain later messages of its key.
        """
        rejection = self._topics.undeliverable(batch.rows) or self._deliver(batch)
        if rejection is None:
            return True
        if isinstance(rejection, RejectedMessage):
            self._hold_message(rejection.row, rejection.reason)
            return False
        for topic, reason in rejection.of_topics.items():
            holds.hold_topic(self._connection, self._lease, topic, reason)
            self._report(
                f"Topic {topic} takes no messages: {reason}. They wait, and are retried in a minute, then less "
                f"often; other topics continue."
            )
        if rejection.of_topics:
            return False
        suspects = [row for row in batch.rows if row.topic in rejection.of_messages]
        if len(suspects) == 1:
            self._hold_message(suspects[0], rejection.of_messages[suspects[0].topic])
            return False
        others = [row for row in batch.rows if row.topic not in rejection.of_messages]
        middle = len(suspects) // 2
        return bool(suspects) and all(
            self._send(claims.claim_again(self._connection, self._lease, part))
            for part in (others, suspects[:middle], suspects[middle:])
            if part
        )

    def _deliver(self, batch: ClaimedBatch) -> Rejection | None:
        topics = {name for name, topic in self._definition.topics.items() if topic.compact}
        rows, left_out = compacted(batch.rows, topics)
        begun = time.time_ns()
        checkpoint = self._checkpoints.checkpoint(self._lease.shard, batch.number, self._lease.epoch)
        try:
            if self._producer is None:  # cannot be: the relay ends if it cannot recover
                raise ProducerFencedOrLostError("The relay has no producer.")
            rejection = self._producer.send(rows, checkpoint)
        except ProducerFencedOrLostError as error:
            return self._recover_from(error, batch)
        if rejection is None:
            self._producer_losses = 0
            self._result.messages += len(batch.rows)
            record_spans(rows, shard=self._lease.shard, batch=batch.number, begun=begun)
            claims.complete(self._connection, self._lease, batch, left_out)
        return rejection

    def _recover_from(self, error: ProducerFencedOrLostError, batch: ClaimedBatch) -> Rejection | None:
        """Replace the producer; return None if its batch is in Kafka, and otherwise what may have cost the producer."""
        # A rejected message may have; several tries find that message.
        self._producer_losses += error.failures is None
        if self._producer_losses >= _MAX_PRODUCER_LOSSES:
            raise error
        log.warning("%s", error)
        # If a right was withdrawn, all topics of the batch fail and Kafka does not report which one caused it.
        self._topics.clear()
        # A newer relay's producer may have fenced ours. Its lease has a higher epoch then, and ours ends here.
        renew(self._connection, self._lease)
        if self._recover():
            return None
        if error.failures is None and batch.due is not None and batch.due.kind == "topic":
            # A topic that is retried alone needs no other evidence.
            return DeliveryFailures(of_topics={batch.due.topic: str(error)})
        return error.failures or DeliveryFailures()

    def _hold_message(self, row: OutboxRow, reason: str) -> None:
        topic = self._definition.topics.get(row.topic)
        with_key = topic is None or topic.on_rejected == "hold"
        holds.hold_message(self._connection, self._lease, row, reason, with_key=with_key)
        later = "later ones of its key wait for it" if with_key and row.key is not None else "only this message is held"
        self._report(
            f"Message {row.id} for topic {row.topic} was refused: {reason}. It was not sent and is kept, "
            f"{later}, all others continue; see `workorders outbox status`."
        )

    def _report(self, sentence: str) -> None:
        log.error("%s", sentence)
        self._result.failures.append(sentence)


class TopicMetadataCache:
    """The topics that can be written to and their numbers of partitions, cached for a minute.

    The cluster is asked before anything is sent, because a producer's own request may create a topic. A message in the
    checkpoint topic could stop a shard. `enqueue` refuses it, but it may be older than that use.
    """

    def __init__(self, cluster: KafkaAdmin, checkpoint_topic: str) -> None:
        self._cluster = cluster
        self._checkpoint_topic = checkpoint_topic
        self._partitions: dict[str, int] = {}
        self._expires_at = 0.0

    def undeliverable(self, rows: Sequence[OutboxRow]) -> Rejection | None:
        """Return what is known to be rejected, without sending it."""
        unwritable = self._unwritable(sorted({row.topic for row in rows}))
        if unwritable:
            return DeliveryFailures(of_topics=unwritable)
        for row in rows:
            if row.partition is not None and row.partition >= self._partitions[row.topic]:
                reason = f"topic {row.topic} has {self._partitions[row.topic]} partitions and no number {row.partition}"
                return RejectedMessage(row, reason)
        return None

    def clear(self) -> None:
        """Ask the cluster again before the next batch, because topics or rights may have changed."""
        self._expires_at = 0.0

    def _unwritable(self, topics: Sequence[str]) -> dict[str, str]:
        """Return which of the topics cannot be written to, each with the reason."""
        if time.monotonic() > self._expires_at:
            self._partitions.clear()
            self._expires_at = time.monotonic() + _CACHE_SECONDS
        found: dict[str, int | str] = {self._checkpoint_topic: "the relay keeps its own checkpoints in it"}
        unknown = [topic for topic in topics if topic not in self._partitions and topic not in found]
        if unknown:
            found |= run(self._cluster.writable(unknown))
        self._partitions |= {topic: answer for topic, answer in found.items() if isinstance(answer, int)}
        return {topic: answer for topic in topics if isinstance(answer := found.get(topic), str)}


def compacted(rows: Sequence[OutboxRow], topics: Collection[str]) -> tuple[Sequence[OutboxRow], Counter[str]]:
    """Leave out rows of topics with `compact` that a later one of the same key replaces.

    Messages without a key or with an explicit partition are always sent.
    """
    if not topics:
        return rows, Counter()
    last = {(row.topic, row.key): row.id for row in rows if row.topic in topics and _is_replaceable(row)}
    kept = [row for row in rows if last.get((row.topic, row.key), row.id) == row.id or not _is_replaceable(row)]
    return kept, Counter(row.topic for row in rows) - Counter(row.topic for row in kept)


def _is_replaceable(row: OutboxRow) -> bool:
    return row.key is not None and row.partition is None


def record_spans(rows: Sequence[OutboxRow], *, shard: int, batch: int, begun: int) -> None:
    """Record the spans of the first messages of a batch that is in Kafka, each in the trace that its message carries.

    `begun` is when the relay began to send it, in nanoseconds of Unix time.
    """
    if not tracing.is_on():
        return
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - an optional extra

    for row in islice((row for row in rows if row.headers), MAX_TRACED_MESSAGES):
        headers = first_header_values({"headers": row.headers}, tracing.HEADERS)
        if "traceparent" not in headers:
            continue
        span = tracing.tracer().start_span(
            f"send {row.topic}",
            tracing.sent_context(headers),
            # The message has the context of what made it, so the next consumer continues there and not here.
            kind=SpanKind.CLIENT,
            start_time=begun,
            attributes={
                "messaging.system": "kafka",
                "messaging.destination.name": row.topic,
                "workorders.outbox.message.id": row.id,
                "workorders.outbox.shard": shard,
                "workorders.outbox.batch": batch,
            },
        )
        span.end()
