"""One event that becomes one work order whose id is asked for: a caller waits for it, or a person."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from workorders.core.admission import duplicates
from workorders.core.creation.work_orders import create_for
from workorders.core.ids import increasing_ids
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger, stream_id

_QUERIES = load_queries("workorders.core.creation", "sql/create_one.sql")

_EXPIRED_BESIDE: Final = 3
"""Keys whose time is over that each new key deletes: more than one, so the table stays as large as the times need."""


@dataclass(frozen=True, slots=True)
class Single:
    """What became of one event."""

    id: UUID | None
    """The work order; None when the event had one that was deleted since."""
    state: str
    """State of the work order; `deleted` when it is no longer there."""
    created: bool
    """Whether it was made now; the event's source key had one before otherwise."""
    reason: str | None = None
    """Code of the rejection, such as `duplicate` or `run-limit`; None when it is not rejected."""
    detail: str | None = None
    """One clause that says why it is rejected."""
    original: UUID | None = None
    """The work order that this one is a duplicate of, by the idempotency key of its trigger."""


def create_one(
    connection: Connection, trigger: Trigger, item: Item, *, key: str | None = None, key_seconds: float | None = None
) -> Single:
    """Create the work order of one event, inside the caller's transaction, and return it.

    Args:
        connection: where the caller's transaction is, or begins.
        trigger: what the work order belongs to.
        item: the event.
        key: what identifies the event within `item.stream`, a text of any length, in place of a position. The same
            key makes no second work order as long as it is known, also when the first one was deleted. A repeat is
            counted: see `workorders.core.admission.duplicates`.
        key_seconds: for how long the key is known, from the creation of its work order; None for ever. Like an
            idempotency key it is then free, whether or not its work order is still there.

    Raises:
        HardLimitError: the workflow takes no more now; the caller must roll back, and its source wait.
        psycopg.Error: the database failed; nothing was created once the caller rolls back.
    """
    if key is None:
        return _create(connection, trigger, item)
    position, new = _position(connection, trigger, item.stream or "", key, key_seconds)
    keyed = item._replace(stream=item.stream or "", position=position)
    if new:
        # Nothing can have been created or deleted at a position that was drawn just now. Fresh ones take no lock of the
        # stream: all keys of a trigger share one, so requests and retention would wait for one another.
        return _create(connection, trigger, keyed, fresh=True)
    existing = _existing(connection, trigger, keyed)
    if existing.id is not None:
        duplicates.count(connection, existing.id, item.request)
    return existing


def _create(connection: Connection, trigger: Trigger, item: Item, *, fresh: bool = False) -> Single:
    id_ = next(increasing_ids())
    counts = create_for(connection, trigger, [item], fresh=fresh, ids=iter([id_]))
    if counts.already_there:
        return _existing(connection, trigger, item)
    row = connection.execute(_QUERIES["by_id"], {"id": UUID(bytes=id_)}).fetchone()
    if row is None:  # cannot be: the rows of this transaction are seen by it
        raise LookupError(f"the work order of trigger {trigger.name} that was just created")
    return _single(row, created=True)


def _existing(connection: Connection, trigger: Trigger, item: Item) -> Single:
    stream = stream_id(connection, trigger, item.stream or "")
    row = connection.execute(_QUERIES["by_source_key"], {"stream_id": stream, "position": item.position}).fetchone()
    return Single(None, "deleted", created=False) if row is None else _single(row, created=False)


def _single(row: tuple[Any, ...], *, created: bool) -> Single:
    id_, state, reason, detail, original = row
    return Single(id_, state, created, reason, detail, original)


def _position(
    connection: Connection, trigger: Trigger, stream: str, key: str, key_seconds: float | None
) -> tuple[int, bool]:
    arguments = {
        "stream_id": stream_id(connection, trigger, stream, is_keyed=True),
        "key_hash": sha256(key.encode("utf-8", "surrogatepass")).digest(),
        "key_seconds": key_seconds,
    }
    row = connection.execute(_QUERIES["number_key"], arguments).fetchone()
    if row is not None:
        if key_seconds is not None:
            connection.execute(_QUERIES["expire_keys"], {"limit": _EXPIRED_BESIDE})
        return int(row[0]), True
    row = connection.execute(_QUERIES["find_key"], arguments).fetchone()
    if row is None:  # cannot be at READ COMMITTED: the insert met or made the row
        raise LookupError(stream)
    return int(row[0]), False
