"""What all relays of an outbox share: its identity, and the limit of their file that `enqueue` obeys.

The first relay records the identity, and every later relay must have the same. A relay with another number of shards
could overtake the others. Fencing and checkpoints do not work across transactional ids, topics, or clusters. So a relay
with another identity sends nothing until an operator has reset it.
"""

from dataclasses import asdict, dataclass

from workorders.core.postgres.connection import Connection, fetch_row, list_rows
from workorders.core.postgres.named_queries import load_queries
from workorders.outbox.exceptions import OutboxIdentityError
from workorders.outbox.store.leases import Lease, renew

_QUERIES = load_queries("workorders.outbox.store", "sql/settings.sql")


@dataclass(frozen=True, slots=True)
class Identity:
    """What all relays of an outbox have in common."""

    shards: int
    transactional_id_prefix: str
    cluster_id: str
    checkpoint_topic: str
    #: A topic that was deleted and re-created has another one.
    checkpoint_topic_id: str


def save_limit(connection: Connection, max_message_bytes: int) -> None:
    """Store the limit, also while Kafka is down: `enqueue` needs only Postgres."""
    with connection.transaction():
        connection.execute(_QUERIES["save_limit"], {"max_message_bytes": max_message_bytes})


def id_and_checkpoint_key(connection: Connection) -> tuple[str, bytes]:
    """Return the outbox's id in checkpoints and transactional ids, and the key that signs its checkpoints."""
    with connection.transaction():
        outbox_id, key = fetch_row(connection, _QUERIES["id_and_checkpoint_key"], {})
    return str(outbox_id), bytes(key)


def require_same_identity(connection: Connection, lease: Lease, identity: Identity) -> None:
    """Record the identity if none is recorded; otherwise require the recorded one.

    An operator cannot reset the identity while any shard is leased. From here on, no message can be enqueued for the
    checkpoint topic.

    Raises:
        OutboxIdentityError: another identity is recorded; nothing was changed.
    """
    with connection.transaction():
        renew(connection, lease)
        (recorded,) = list_rows(connection, Identity, _QUERIES["record_identity"], asdict(identity))
        if recorded != identity:
            others = sorted(asdict(identity).items() - asdict(recorded).items())
            found = ", ".join(f"{name} is {own} (recorded: {getattr(recorded, name)})" for name, own in others)
            raise OutboxIdentityError(
                f"This relay differs from the outbox's recorded identity: {found}. Nothing was sent or deleted. Change "
                f"it back; or, to keep the change, pause all Dags of the relay, run `workorders outbox "
                f"reset-identity`, and unpause them."
            )
