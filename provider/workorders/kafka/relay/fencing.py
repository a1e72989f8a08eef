"""How a shard's producer begins: older ones are fenced, and what one of them left is settled by the last marker."""

import logging
from typing import Final

from workorders.core.database import Connection
from workorders.kafka.relay.sender import Sender
from workorders.kafka.relay.tools import Tools
from workorders.outbox.leases import Lease
from workorders.outbox.recovery import open_claims, settle_claims

log: Final = logging.getLogger(__name__)


def new_sender(connection: Connection, lease: Lease, tools: Tools) -> Sender:
    """Fence the shard's older producers, settle the batch that one of them may have left, and return a new one.

    Raises:
        KafkaUnavailableError: the cluster did not answer in time.
        OutboxContradictionError: marker and database do not fit together.
        OutboxFencedError: the lease is somebody else's by now.
    """
    transactional = tools.definition.transactional
    sender: Sender | None = None
    marker: int | None = None
    left = open_claims(connection, lease)
    if transactional or any(claim.marked for claim in left):
        # First the fence, then the look: the other way round, an older producer could still commit in between.
        sender = tools.new_sender(_transactional_id(lease.shard, tools))
        tools.markers_made.result()
        marker = tools.markers.last(lease.shard)
    deleted = settle_claims(connection, lease, tools.settings, marker, marks=transactional)
    if left:
        log.info(
            "Shard %s: %s messages were under way; %s of them are in Kafka, the others are sent now.",
            lease.shard,
            sum(claim.messages for claim in left),
            deleted,
        )
    return sender if sender is not None and transactional else tools.new_sender(None)


def _transactional_id(shard: int, tools: Tools) -> str:
    """Return the id by which Kafka knows the producers of a shard, one after the other."""
    return f"{tools.definition.transactional_id_prefix}-{tools.settings.outbox_id}-{shard}"
