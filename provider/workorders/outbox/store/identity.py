"""What makes the batches of an outbox its own: recorded by the first relay, and the same for every one after it.

A relay that divided the keys otherwise could overtake another one. Fence and marker are worth nothing under another
transactional id, in another topic, or on another cluster. So a relay that differs from what is recorded sends nothing,
until an operator lets the next one record something else.
"""

from dataclasses import asdict, dataclass, fields

from psycopg.rows import class_row

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.exceptions import OutboxIdentityError
from workorders.outbox.store.leases import Lease, hold_shard

_QUERIES = load_queries("workorders.outbox.store", "sql/relay.sql")


@dataclass(frozen=True, slots=True)
class Identity:
    """What is the same for all relays of an outbox."""

    shards: int
    transactional_id_prefix: str
    cluster_id: str
    markers_topic: str
    #: A topic that was deleted and created again has another one.
    markers_topic_id: str


def outbox_id(connection: Connection) -> str:
    """Return the id by which markers and transactional ids name this outbox."""
    with connection.transaction():
        return str(connection.execute(_QUERIES["outbox_id"]).fetchall()[0][0])


def marker_key(connection: Connection) -> bytes:
    """Return the key by which this outbox knows its own markers."""
    with connection.transaction():
        return bytes(connection.execute(_QUERIES["marker_key"]).fetchall()[0][0])


def require_same_identity(connection: Connection, lease: Lease, identity: Identity) -> None:
    """Record the identity of the first relay; require it of every later one.

    While there is a lease of any shard, nobody resets the identity. From here on nobody can enqueue a message for the
    topic of markers.

    Raises:
        OutboxFencedError: the lease is somebody else's by now; nothing was changed.
        OutboxIdentityError: another identity is recorded; nothing was changed.
    """
    with connection.transaction(), connection.cursor(row_factory=class_row(Identity)) as cursor:
        hold_shard(connection, lease)
        cursor.execute(_QUERIES["record_identity"], asdict(identity))
        (recorded,) = cursor.execute(_QUERIES["identity"]).fetchall()
        if recorded != identity:
            raise OutboxIdentityError(_sentence(recorded, identity))


def _sentence(recorded: Identity, found: Identity) -> str:
    differences = [
        f"{field.name} is {getattr(found, field.name)} and was {getattr(recorded, field.name)}"
        for field in fields(Identity)
        if getattr(found, field.name) != getattr(recorded, field.name)
    ]
    return (
        f"The outbox stands still: {', '.join(differences)}. Nothing was sent or deleted. Change it back; or, if the "
        f"change is meant, pause all Dags of the relay, run `workorders outbox reset-identity`, and unpause them."
    )
