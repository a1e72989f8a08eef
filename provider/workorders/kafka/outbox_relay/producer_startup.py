"""How a shard's producer begins: older ones are fenced, and what one of them left is settled by the last marker."""

import logging
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.kafka.outbox_relay.context import Tools
from workorders.kafka.outbox_relay.producer import Sender
from workorders.outbox.store import transaction_identity
from workorders.outbox.store.leases import Lease
from workorders.outbox.store.recovery import open_claims, settle_claims

log: Final = logging.getLogger(__name__)


def new_sender(connection: Connection, lease: Lease, tools: Tools) -> Sender:
    """Fence the shard's older producers, settle the batch that one of them may have left, and return a new one.

    Raises:
        KafkaUnavailableError: the cluster did not answer in time.
        OutboxContradictionError: marker and database do not fit together.
        OutboxFencedError: the lease is somebody else's by now.
    """
    left = open_claims(connection, lease)
    sender = marker = None
    if tools.definition.transactional or any(claim.marked for claim in left):
        # First the fence, then the look: the other way round, an older producer could still commit in between.
        sender = _fencing_sender(connection, lease, tools)
        transaction_identity.refuse_other_place(connection, lease, tools.markers_place(), left)
        marker = tools.markers.last(lease.shard)
    deleted = settle_claims(connection, lease, tools.settings, marker, marks=tools.definition.transactional)
    if left:
        log.info(
            "Shard %s: %s messages were under way; %s of them are in Kafka, the others are sent now.",
            lease.shard,
            sum(claim.messages for claim in left),
            deleted,
        )
    if sender is None or not tools.definition.transactional:
        return tools.new_sender(None)
    # Before anything is claimed, and not before the older producers were fenced by what stood there.
    transaction_identity.record(connection, lease, tools.definition.transactional_id_prefix, tools.markers_place())
    return sender


def _fencing_sender(connection: Connection, lease: Lease, tools: Tools) -> Sender:
    """Return a producer that has fenced all older ones of the shard, those of a former prefix as well."""
    prefix = tools.definition.transactional_id_prefix
    former = transaction_identity.recorded_prefix(connection, lease.shard)
    if former is not None and former != prefix:
        tools.new_sender(_transactional_id(former, lease.shard, tools))
    return tools.new_sender(_transactional_id(prefix, lease.shard, tools))


def _transactional_id(prefix: str, shard: int, tools: Tools) -> str:
    """Return the id by which Kafka knows the producers of a shard, one after the other."""
    return f"{prefix}-{tools.settings.outbox_id}-{shard}"
