"""Relays one shard: claims a batch, sends it with its checkpoint, deletes it; after a loss, learns if it was sent.

Postgres, this program and Kafka work at the same time: while the messages of a batch go into the producer's queue, the
batch is claimed and the one before it deleted; meanwhile the next ones are read.
"""

import logging
import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.outbox.relay import send_spans
from workorders.outbox.relay.batch_queue import BatchQueue, PendingBatch
from workorders.outbox.relay.context import RelayContext
from workorders.outbox.relay.delivery_errors import Rejection
from workorders.outbox.relay.producer import ProducerFencedOrLostError, TransactionalProducer
from workorders.outbox.relay.quarantine import Quarantine
from workorders.outbox.store.claims import ClaimedBatch
from workorders.outbox.store.leases import Lease
from workorders.outbox.store.recovery import settle_claims
from workorders.outbox.store.rows import ROW_TOPIC, OutboxRow, Row
from workorders.outbox.store.settings import require_same_identity

log: Final = logging.getLogger(__name__)


class ShardRelay:
    """Relays one shard as long as its lease lasts; each method raises `OutboxFencedError` if another relay has it."""

    def __init__(self, connection: Connection, lease: Lease, context: RelayContext) -> None:
        self.lease = lease
        #: Number of messages.
        self.sent = 0
        self._connection = connection
        self._context = context
        self._quarantine = Quarantine(connection, lease, context)
        self._queue = BatchQueue(connection, lease, context, self._quarantine)
        self._producer: TransactionalProducer | None = None

    def recover(self) -> None:
        """Fence the shard's older producers, and settle the batch that one of them may have left.

        Raises:
            KafkaUnavailableError: the cluster did not answer in time.
            OutboxContradictionError: checkpoint and database contradict each other.
            OutboxIdentityError: this relay differs from the outbox's recorded identity.
        """
        self._producer = None
        self._queue.reset()
        # Fence first and read then: the other way round, an older producer could still commit in between.
        producer = self._context.new_producer()
        require_same_identity(self._connection, self.lease, self._context.identity())
        checkpoint = self._context.checkpoints.last(self.lease.shard)
        settled = settle_claims(self._connection, self.lease, checkpoint, keep_sent=self._context.definition.keeps_sent)
        if settled.in_flight:
            log.info(
                "Shard %s: %s messages were in flight; %s of them are in Kafka, the others are sent now.",
                self.lease.shard,
                settled.in_flight,
                settled.in_kafka,
            )
        self._producer = producer
        self._quarantine.hold_suspected()

    def step(self) -> bool:
        """Send one batch; return whether there was one.

        Raises:
            ProducerFencedOrLostError: call `recover` before the next step.
        """
        pending = self._queue.next_batch()
        if pending is None:
            return False
        try:
            self._send(pending)
        finally:
            self._queue.wait_for_claim()
        return True

    def finish(self) -> None:
        """Delete what was sent last, and claim nothing more."""
        self._queue.finish()

    def close(self) -> None:
        """Leave the shard as it is."""
        self._queue.close()

    def _send(self, pending: PendingBatch) -> None:
        rejection = self._context.topics.undeliverable(pending.rows)
        if rejection is not None:
            pending.claim()
            self._hold(rejection, pending.rows)
            return
        rows, left_out = compacted(pending.rows, self._context.definition.compacted_topics)
        begun = time.time_ns()
        try:
            batch, rejection = self._deliver(rows, pending)
        except ProducerFencedOrLostError as error:
            # If a right was withdrawn, all topics of the batch fail and Kafka does not report which one caused it.
            self._context.topics.clear()
            self._quarantine.suspect(error, pending.rows, pending.due)
            raise
        if rejection is not None:
            self._hold(rejection, pending.rows)
            return
        self._queue.completed(pending, batch, left_out)
        self.sent += len(batch.content.rows)
        send_spans.record(rows, shard=self.lease.shard, batch=batch.number, begun=begun)

    def _deliver(self, rows: Sequence[Row], pending: PendingBatch) -> tuple[ClaimedBatch, Rejection | None]:
        """Send rows in one transaction of Kafka, which commits after their claim."""
        producer = self._producer
        if producer is None:  # cannot be: the caller recovers after every loss
            raise ProducerFencedOrLostError("The relay has no producer.")
        rejected = producer.produce(rows)
        if rejected is not None:
            return pending.claim(), rejected
        producer.flush()
        try:
            batch = pending.claim()
        except BaseException:
            producer.abort()
            raise
        self._queue.prefetch_after(pending, batch)
        checkpoint = self._context.checkpoints.checkpoint(self.lease.shard, batch.number, self.lease.epoch)
        return batch, producer.commit(checkpoint)

    def _hold(self, rejection: Rejection, rows: Sequence[Row]) -> None:
        self._queue.discard_prefetched()
        self._quarantine.hold(rejection, rows)


def compacted(rows: Sequence[Row], topics: Collection[str]) -> tuple[Sequence[Row], Counter[str]]:
    """Leave out rows of topics with `compact` that a later one of the same key replaces.

    Messages without a key or with an explicit partition are always sent.

    Args:
        rows: those of a key in the order in which they are to be sent.
        topics: with `compact`.

    Returns:
        The rows to send, and how many of each topic are left out.
    """
    if not topics or not any(row[ROW_TOPIC] in topics for row in rows):
        return rows, Counter()
    named = [OutboxRow._make(row) for row in rows]
    last = {(row.topic, row.key): row.id for row in named if row.topic in topics and _is_replaceable(row)}
    kept = [row for row in named if last.get((row.topic, row.key), row.id) == row.id or not _is_replaceable(row)]
    return kept, Counter(row.topic for row in named) - Counter(row.topic for row in kept)


def _is_replaceable(row: OutboxRow) -> bool:
    return row.key is not None and row.partition is None
