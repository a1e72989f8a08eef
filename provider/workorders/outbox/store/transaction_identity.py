"""What a shard's batches are sent under, and where their markers lie: fence and marker are worth nothing elsewhere.

Each shard's own relay writes it down before it claims anything, so it holds for whatever is open.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from psycopg.rows import class_row

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.exceptions import OutboxContradictionError
from workorders.outbox.store.claims import OpenClaim
from workorders.outbox.store.leases import Lease, fenced

_QUERIES = load_queries("workorders.outbox.store", "sql/relay.sql")


@dataclass(frozen=True, slots=True)
class MarkersPlace:
    """Where the markers of an outbox lie."""

    #: Markers name it, so those of another one are not found.
    outbox_id: str
    cluster: str
    topic: str
    #: A topic that was deleted and made again has another one.
    topic_id: str

    def __str__(self) -> str:
        return f"topic {self.topic} (id {self.topic_id}) of cluster {self.cluster} for the outbox {self.outbox_id}"


def recorded_prefix(connection: Connection, shard: int) -> str | None:
    """Return the beginning of the transactional id of the shard's last producer; None when it never had one."""
    with connection.transaction():
        row = connection.execute(_QUERIES["recorded_prefix"], {"shard": shard}).fetchone()
    return row[0] if row else None


def refuse_other_place(connection: Connection, lease: Lease, place: MarkersPlace, claims: Sequence[OpenClaim]) -> None:
    """Refuse to decide about open batches by markers that lie elsewhere than theirs.

    Raises:
        OutboxContradictionError: a batch with a marker is open, and its marker lies elsewhere; nothing was changed.
    """
    messages = sum(claim.messages for claim in claims if claim.marked)
    before = _recorded_place(connection, lease.shard)
    if before is not None and before != place and any(claim.marked for claim in claims):
        raise OutboxContradictionError(
            f"Shard {lease.shard} of the outbox stands still: a batch of {messages} messages is open, and what tells "
            f"whether they were sent lies in {before}, while this relay reads {place}. Nothing was sent or deleted. "
            f"Go back until a relay has ended once, and change it then; or look into the topics and decide by "
            f"`workorders outbox release --shard {lease.shard}` with --sent or --unsent."
        )


def record(connection: Connection, lease: Lease, prefix: str, place: MarkersPlace) -> None:
    """Write down what the batches of a shard are sent under from now on; writes nothing that is there already.

    From then on nobody can enqueue a message for the topic of markers.

    The shard's former producers must have been fenced, and no batch may be open.

    Raises:
        OutboxFencedError: the lease is somebody else's by now; nothing was changed.
    """
    if recorded_prefix(connection, lease.shard) == prefix and _recorded_place(connection, lease.shard) == place:
        return
    outbox_id, cluster, topic, topic_id = astuple(place)
    arguments = {
        "shard": lease.shard,
        "epoch": lease.epoch,
        "prefix": prefix,
        "outbox_id": outbox_id,
        "cluster": cluster,
        "topic": topic,
        "topic_id": topic_id,
    }
    with connection.transaction():
        if connection.execute(_QUERIES["record_origin"], arguments).rowcount != 1:
            raise fenced(lease)
        connection.execute(_QUERIES["lock_settings"])
        connection.execute(_QUERIES["record_markers_topics"])


def _recorded_place(connection: Connection, shard: int) -> MarkersPlace | None:
    with connection.transaction(), connection.cursor(row_factory=class_row(MarkersPlace)) as cursor:
        return cursor.execute(_QUERIES["recorded_place"], {"shard": shard}).fetchone()
