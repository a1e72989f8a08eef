"""Starts a shard's producer: fences older ones, and settles the batch that one of them left by the checkpoint."""

import logging
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.kafka.outbox_relay.context import RelayContext
from workorders.kafka.outbox_relay.producer import TransactionalProducer
from workorders.outbox.store.identity import require_same_identity
from workorders.outbox.store.leases import Lease
from workorders.outbox.store.recovery import open_claims, settle_claims

log: Final = logging.getLogger(__name__)


def start_producer(connection: Connection, lease: Lease, context: RelayContext) -> TransactionalProducer:
    """Fence the shard's older producers, settle the batch that one of them may have left, and return a new producer.

    Raises:
        KafkaUnavailableError: the cluster did not answer in time.
        OutboxContradictionError: checkpoint and database contradict each other.
        OutboxFencedError: another relay has the lease.
        OutboxIdentityError: this relay differs from the outbox's recorded identity.
    """
    left = open_claims(connection, lease)
    # Fence first and read then: the other way round, an older producer could still commit in between.
    producer = context.new_producer(lease.shard)
    require_same_identity(connection, lease, context.identity())
    checkpoint = context.checkpoints.last(lease.shard)
    deleted = settle_claims(connection, lease, checkpoint, keep_sent=context.definition.keeps_sent)
    if left:
        log.info(
            "Shard %s: %s messages were in flight; %s of them are in Kafka, the others are sent now.",
            lease.shard,
            sum(claim.messages for claim in left),
            deleted,
        )
    return producer
