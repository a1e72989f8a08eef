"""Relays one shard: claims a batch, sends it with its checkpoint, deletes it; after a loss, learns if it was sent.

Postgres, this program and Kafka work at the same time: while the messages of a batch go into the producer's queue, the
batch is claimed and the one before it deleted; meanwhile the next ones are read.
"""

from collections.abc import Sequence

from workorders.core.postgres.connection import Connection
from workorders.kafka.outbox_relay.batch_queue import BatchQueue, PendingBatch
from workorders.kafka.outbox_relay.bisection import PoisonMessageBisector
from workorders.kafka.outbox_relay.compaction import compacted
from workorders.kafka.outbox_relay.context import RelayContext
from workorders.kafka.outbox_relay.delivery_errors import DeliveryFailures, RejectedMessage
from workorders.kafka.outbox_relay.producer import ProducerFencedOrLostError, TransactionalProducer
from workorders.kafka.outbox_relay.producer_fencing import start_producer
from workorders.kafka.outbox_relay.quarantine import SuspectedFailures, pause_topics, quarantine_message
from workorders.kafka.outbox_relay.topic_metadata import topics_of
from workorders.outbox.store.claims import ClaimedBatch, drop_claims
from workorders.outbox.store.leases import Lease
from workorders.outbox.store.rows import Row

Rejection = RejectedMessage | DeliveryFailures


class ShardRelay:
    """Relays one shard as long as its lease lasts."""

    def __init__(self, connection: Connection, lease: Lease, context: RelayContext) -> None:
        self.lease = lease
        #: Number of messages.
        self.sent = 0
        self._connection = connection
        self._context = context
        self._bisector = PoisonMessageBisector(context.definition.batch_messages)
        self._queue = BatchQueue(connection, lease, context, self._bisector)
        self._producer: TransactionalProducer | None = None
        self._suspected = SuspectedFailures()

    def recover(self) -> None:
        """Fence the shard's older producers, and settle the batch that one of them may have left.

        Raises:
            KafkaUnavailableError: the cluster did not answer in time.
            OutboxContradictionError: checkpoint and database contradict each other.
            OutboxFencedError: another relay has the lease.
            OutboxIdentityError: this relay differs from the outbox's recorded identity.
        """
        self._producer = None
        self._queue.reset()
        self._producer = start_producer(self._connection, self.lease, self._context)
        self._suspected.apply(self._connection, self.lease, self._context)

    def step(self) -> bool:
        """Send one batch; return whether there was one.

        Raises:
            OutboxFencedError: another relay has the lease.
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
        """Delete what was sent last, and claim nothing more.

        Raises:
            OutboxFencedError: another relay has the lease.
        """
        self._queue.finish()

    def close(self) -> None:
        """Leave the shard as it is."""
        self._queue.close()

    def _send(self, pending: PendingBatch) -> None:
        rejection = self._undeliverable(pending.rows)
        if rejection is not None:
            pending.claim()
            self._quarantine(rejection, pending.rows)
            return
        rows, left_out = compacted(pending.rows, self._context.definition.compacted_topics)
        try:
            batch, rejection = self._deliver(rows, pending)
        except ProducerFencedOrLostError as error:
            # If a right was withdrawn, all topics of the batch fail and Kafka does not report which one caused it.
            self._context.topics.clear()
            self._suspected.record(error, pending.rows, self._bisector, pending.due)
            raise
        if rejection is not None:
            self._quarantine(rejection, pending.rows)
            return
        self._queue.completed(pending, batch, left_out)
        self.sent += len(batch.content.rows)

    def _undeliverable(self, rows: Sequence[Row]) -> Rejection | None:
        """Return what would be rejected, as far as that is known without sending it."""
        unwritable = self._context.topics.unwritable(topics_of(rows))
        if unwritable:
            return DeliveryFailures(of_topics=unwritable)
        return self._context.topics.invalid_partition(rows)

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

    def _quarantine(self, rejection: Rejection, rows: Sequence[Row]) -> None:
        self._queue.discard_prefetched()
        if isinstance(rejection, DeliveryFailures) and rejection.of_topics:
            pause_topics(self._connection, self.lease, self._context, rejection.of_topics)
            return
        found = rejection if isinstance(rejection, RejectedMessage) else self._bisector.narrow(rejection, rows)
        if found is not None:
            quarantine_message(self._connection, self.lease, self._context, found)
        else:
            drop_claims(self._connection, self.lease)
