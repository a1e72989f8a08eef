"""Relays one shard: claims a batch, sends it with its checkpoint, deletes it; after a loss, learns if it was sent."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from workorders.core.postgres.connection import Connection
from workorders.kafka.client.admin import KafkaAdmin
from workorders.outbox.relay import send_spans
from workorders.outbox.relay.checkpoints import Checkpoints
from workorders.outbox.relay.definition import RelayDefinition
from workorders.outbox.relay.producer import (
    DeliveryFailures,
    ProducerFencedOrLostError,
    RejectedMessage,
    Rejection,
    TransactionalProducer,
)
from workorders.outbox.relay.topic_metadata import TopicMetadataCache
from workorders.outbox.store import claims, holds
from workorders.outbox.store.backlog import (
    ROW_TOPIC,
    BatchRequest,
    DueHold,
    OutboxRow,
    Row,
    is_anything_waiting,
    next_due_hold,
)
from workorders.outbox.store.claims import ClaimedBatch, CompletedBatch, settle_claims
from workorders.outbox.store.leases import Lease, record_error, renew
from workorders.outbox.store.settings import Identity, id_and_checkpoint_key, require_same_identity

log: Final = logging.getLogger(__name__)

_MIN_WAIT: Final = 0.02
_MAX_WAIT: Final = 0.25
_MAX_PRODUCER_LOSSES: Final = 3
_MAX_SECONDS_AFTER_FAILURE: Final = 300.0
"""A relay that had to hold something ends after this time, even if there is more to send, because people see its end in
Airflow. If failures are frequent, ending with each one would cost all other messages a start each time."""


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
        self._result = result
        outbox_id, signing_key = id_and_checkpoint_key(connection)
        self._checkpoints = Checkpoints(kafka, definition.checkpoint_topic, outbox_id, signing_key)
        self._topics = TopicMetadataCache(KafkaAdmin(kafka), definition.checkpoint_topic)
        transactional_id = f"{definition.transactional_id_prefix}-{outbox_id}-{lease.shard}"
        self._new_producer = partial(TransactionalProducer, definition, kafka, transactional_id)
        self._producer: TransactionalProducer | None = None
        #: One after the other, without a batch that was sent in between.
        self._producer_losses = 0
        #: In Kafka, and deleted together with the next claim.
        self._completed: CompletedBatch | None = None

    def run(self, linger: float, deadline: float, stopped: Callable[[], bool]) -> None:
        """Settle what an earlier relay left, and send until nothing has waited for `linger` seconds.

        Raises:
            CheckpointTopicError: checkpoints would not last.
            KafkaUnavailableError: the cluster repeatedly did not answer in time.
            OutboxContradictionError: checkpoint and database contradict each other.
            OutboxIdentityError: this relay differs from the outbox's recorded identity.
        """
        definition, (cluster_id, topic_id) = self._definition, self._checkpoints.ensure_topic()
        identity = Identity(
            definition.shards, definition.transactional_id_prefix, cluster_id, definition.checkpoint_topic, topic_id
        )
        require_same_identity(self._connection, self._lease, identity)
        self._recover()
        wait, idle_since = _MIN_WAIT, time.monotonic()
        while not stopped() and time.monotonic() < deadline:
            if self._step():
                wait, idle_since = _MIN_WAIT, time.monotonic()
            elif time.monotonic() - idle_since >= linger:
                break
            else:
                time.sleep(wait)
                wait = min(wait * 1.5, _MAX_WAIT)
            if self._result.failures:
                deadline = min(deadline, time.monotonic() + _MAX_SECONDS_AFTER_FAILURE)
        if self._completed is not None:
            claims.complete(self._connection, self._lease, self._completed)
        record_error(self._connection, self._lease, None)

    def _step(self) -> bool:
        """Send one batch, and hold what Kafka rejects of it; return whether there was one."""
        while self._completed is not None or is_anything_waiting(self._connection, self._lease.buckets):
            due = next_due_hold(self._connection, self._lease.buckets)
            completed, self._completed = self._completed, None
            batch = claims.complete_and_claim(self._connection, self._lease, completed, self._request(due))
            if batch is not None:
                self._send(batch, due)
                return True
            if due is None:
                return False
            # No message of the hold is left.
            claims.complete(self._connection, self._lease, CompletedBatch(number=0, ended_hold=due.id))
        return False

    def _request(self, due: DueHold | None) -> BatchRequest:
        definition = self._definition
        return BatchRequest(
            # A retry consists of one message.
            max_messages=1 if due else definition.max_messages,
            max_bytes=1 if due else definition.max_bytes,
            only_topic=due.topic if due else None,
            hold_id=due.id if due and due.kind == "key" else None,
            with_event_ids=definition.event_id_header is not None,
        )

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

    def _send(self, batch: ClaimedBatch, due: DueHold | None = None) -> bool:
        """Send a batch and return True; or hold what was rejected, leave what was not sent, and return False.

        Kafka rejects a whole transaction because of one message. So a batch is sent in parts until that message is sent
        alone (bisection). What follows it waits in its table, because it may contain later messages of its key.
        """
        rejection = self._topics.undeliverable(batch.rows) or self._deliver(batch, due)
        if rejection is None:
            return True
        if isinstance(rejection, RejectedMessage):
            self._hold_message(rejection)
            return False
        for topic, reason in rejection.of_topics.items():
            self._hold_topic(topic, reason)
        if rejection.of_topics:
            return False
        suspects = [row for row in batch.rows if row[ROW_TOPIC] in rejection.of_messages]
        if len(suspects) == 1:
            row = OutboxRow._make(suspects[0])
            self._hold_message(RejectedMessage(row, rejection.of_messages[row.topic]))
            return False
        others = [row for row in batch.rows if row[ROW_TOPIC] not in rejection.of_messages]
        middle = len(suspects) // 2
        return bool(suspects) and all(
            self._send(self._claim_again(part)) for part in (others, suspects[:middle], suspects[middle:]) if part
        )

    def _claim_again(self, rows: Sequence[Row]) -> ClaimedBatch:
        completed, self._completed = self._completed, None
        return claims.complete_and_claim_again(self._connection, self._lease, completed, rows)

    def _deliver(self, batch: ClaimedBatch, due: DueHold | None) -> Rejection | None:
        rows, left_out = compacted(batch.rows, self._definition.compacted_topics)
        begun = time.time_ns()
        checkpoint = self._checkpoints.checkpoint(self._lease.shard, batch.number, self._lease.epoch)
        try:
            if self._producer is None:  # cannot be: the relay ends if it cannot recover
                raise ProducerFencedOrLostError("The relay has no producer.")
            rejection = self._producer.send(rows, checkpoint)
        except ProducerFencedOrLostError as error:
            return self._recover_from(error, due)
        if rejection is None:
            ended = due.id if due else None
            self._completed = CompletedBatch(number=batch.number, compacted=left_out, ended_hold=ended)
            self._producer_losses = 0
            self._result.messages += len(batch.rows)
            send_spans.record(rows, shard=self._lease.shard, batch=batch.number, begun=begun)
        return rejection

    def _recover_from(self, error: ProducerFencedOrLostError, due: DueHold | None) -> Rejection | None:
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
        if error.failures is None and due is not None and due.kind == "topic":
            # A topic that is retried alone needs no other evidence.
            return DeliveryFailures(of_topics={due.topic: str(error)})
        return error.failures or DeliveryFailures()

    def _hold_topic(self, topic: str, reason: str) -> None:
        with self._connection.transaction():
            claims.drop_claims(self._connection, self._lease)
            holds.hold_topic(self._connection, self._lease, topic, reason)
        self._report(
            f"Topic {topic} takes no messages: {reason}. They wait, and are retried in a minute, then less "
            f"often; other topics continue."
        )

    def _hold_message(self, rejected: RejectedMessage) -> None:
        row = rejected.row
        topic = self._definition.topics.get(row.topic)
        with_key = topic is None or topic.on_rejected == "hold"
        with self._connection.transaction():
            claims.drop_claims(self._connection, self._lease)
            holds.hold_message(self._connection, self._lease, row, rejected.reason, with_key=with_key)
        later = "later ones of its key wait for it" if with_key and row.key is not None else "only this message is held"
        self._report(
            f"Message {row.id} for topic {row.topic} was refused: {rejected.reason}. It was not sent and is kept, "
            f"{later}, all others continue; see `workorders outbox status`."
        )

    def _report(self, sentence: str) -> None:
        log.error("%s", sentence)
        self._result.failures.append(sentence)


def compacted(rows: Sequence[Row], topics: Collection[str]) -> tuple[Sequence[Row], Counter[str]]:
    """Leave out rows of topics with `compact` that a later one of the same key replaces.

    Messages without a key or with an explicit partition are always sent.
    """
    if not topics or not any(row[ROW_TOPIC] in topics for row in rows):
        return rows, Counter()
    named = [OutboxRow._make(row) for row in rows]
    last = {(row.topic, row.key): row.id for row in named if row.topic in topics and _is_replaceable(row)}
    kept = [row for row in named if last.get((row.topic, row.key), row.id) == row.id or not _is_replaceable(row)]
    return kept, Counter(row.topic for row in named) - Counter(row.topic for row in kept)


def _is_replaceable(row: OutboxRow) -> bool:
    return row.key is not None and row.partition is None
