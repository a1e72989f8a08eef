"""How a shard's producer begins: older ones are fenced, and what one of them left is settled by the last marker."""

import logging
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.kafka.outbox_relay.context import Tools
from workorders.kafka.outbox_relay.producer import Sender
from workorders.outbox.store.identity import require_same_identity
from workorders.outbox.store.leases import Lease
from workorders.outbox.store.recovery import open_claims, settle_claims

log: Final = logging.getLogger(__name__)


def new_sender(connection: Connection, lease: Lease, tools: Tools) -> Sender:
    """Fence the shard's older producers, settle the batch that one of them may have left, and return a new one.

    Raises:
        KafkaUnavailableError: the cluster did not answer in time.
        OutboxContradictionError: marker and database do not fit together.
        OutboxFencedError: the lease is somebody else's by now.
        OutboxIdentityError: this relay differs from what is recorded of the outbox.
    """
    left = open_claims(connection, lease)
    # First the fence, then the look: the other way round, an older producer could still commit in between.
    sender = tools.new_sender(lease.shard)
    require_same_identity(connection, lease, tools.identity())
    marker = tools.markers.last(lease.shard)
    deleted = settle_claims(connection, lease, marker, keep_sent=tools.definition.keeps_sent)
    if left:
        log.info(
            "Shard %s: %s messages were under way; %s of them are in Kafka, the others are sent now.",
            lease.shard,
            sum(claim.messages for claim in left),
            deleted,
        )
    return sender
