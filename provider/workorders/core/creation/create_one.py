"""Creates one work order of any trigger, and returns it: a caller or a person waits for the answer."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import orjson

from workorders.core.admission import duplicates, idempotency
from workorders.core.admission.duplicates import RepeatOf
from workorders.core.admission.idempotency import CallerKey, IdempotencyRule, IdempotencySettings
from workorders.core.attribution import Attribution
from workorders.core.creation.json_validation import validate_body
from workorders.core.creation.work_orders import create_for
from workorders.core.exceptions import WorkOrdersError
from workorders.core.ids import increasing_ids
from workorders.core.items import MAX_BODY_BYTES, Item
from workorders.core.postgres.connection import Connection, find_row
from workorders.core.postgres.named_queries import load_queries
from workorders.core.triggers import Trigger, stream_id

_QUERIES = load_queries("workorders.core.creation", "sql/create_one.sql")

_PERSON: Final = "person"
"""The scope of the keys that people give."""


class NotAnInputError(WorkOrdersError, ValueError):
    """The given body cannot be the input of a work order; nothing was created."""


@dataclass(frozen=True, slots=True)
class CreateResult:
    """The outcome of one event."""

    id: UUID | None
    """The work order; None if the event had one that is deleted."""
    state: str
    """State of the work order; `deleted` if it is deleted."""
    created: bool = False
    """Whether it was created now. Otherwise the event had one, by its source key or an idempotency key."""
    reason: str | None = None
    """Code of the rejection, such as `duplicate` or `run-limit`; None if it is not rejected."""
    detail: str | None = None
    """The reason of the rejection, as one clause."""
    original: UUID | None = None
    """The work order that this one is a duplicate of, by the idempotency key of its trigger."""

    def __str__(self) -> str:
        """Return it as a clause for a log."""
        outcome = "was created" if self.created else "exists already; nothing was created"
        return f"work order {self.id} ({self.state}) {outcome}"


def create_one(
    connection: Connection,
    trigger: Trigger,
    item: Item,
    *,
    key: str | None = None,
    key_scope: str = "",
    key_seconds: float | None = None,
) -> CreateResult:
    """Create the work order of one event, inside the caller's transaction, and return it.

    Args:
        connection: where the caller's transaction is, or begins.
        trigger: what the work order belongs to.
        item: the event; without a stream and a position if it has a key.
        key: names the event, a text of any length. The same key creates no second work order as long as it is known,
            also when the first one was deleted. A repeat is counted: see `workorders.core.admission.duplicates`.
        key_scope: where the key comes from; in another scope the same text is another key.
        key_seconds: how long the key is known, from the creation of its work order; None if it never expires. It is
            free afterwards, whether or not its work order still exists.

    Raises:
        LimitReachedError: the workflow has no capacity; the caller must roll back, and its source must wait.
        psycopg.Error: the database failed; nothing was created once the caller rolls back.
    """
    own = [] if key is None else [IdempotencySettings(CallerKey(key_scope, key), key_seconds, "ignore")]
    keys = [*own, *IdempotencySettings.of(trigger)]
    holder = _find_holder(connection, trigger, keys, item)
    if holder is not None:
        duplicates.ignore(connection, [RepeatOf(None, holder.bytes)])
        return _find(connection, holder)
    id_ = next(increasing_ids())
    counts = create_for(connection, trigger, [item], ids=iter([id_]), rules=list(map(IdempotencyRule, own)))
    if counts.existing:
        stream = stream_id(connection, trigger, item.stream or "")
        return _find(connection, stream_id=stream, position=item.position)
    if counts.ignored:  # another transaction has acquired the key since
        return _find(connection, _find_holder(connection, trigger, keys, item))
    return replace(_find(connection, UUID(bytes=id_)), created=True)


def _find_holder(
    connection: Connection, trigger: Trigger, keys: Sequence[IdempotencySettings], item: Item
) -> UUID | None:
    """Return the work order that the item repeats without leaving a new one; None if there is none."""
    for settings in keys:
        if settings.ignores(item.position):
            holder = idempotency.find_holder(connection, trigger.id, settings, item)
            if holder is not None:
                return holder
    return None


def _find(
    connection: Connection, id_: UUID | None = None, *, stream_id: int | None = None, position: int | None = None
) -> CreateResult:
    arguments = {"id": id_, "stream_id": stream_id, "position": position}
    return find_row(connection, CreateResult, _QUERIES["what_became"], arguments) or CreateResult(None, "deleted")


def create_by_hand(
    connection: Connection, trigger: Trigger, body: bytes, by: Attribution, *, key: str | None = None
) -> CreateResult:
    """Create the work order that a person requests, in its own transaction, or find the one of the key.

    Without a key, each request is an event.
    """
    if (rejection := validate_body(body, MAX_BODY_BYTES)) is not None:
        raise NotAnInputError(
            f"Trigger {trigger.name}: the input must be a JSON object, and {rejection.detail}; nothing was created."
        )
    facts = {**asdict(by), "created_at": datetime.now(UTC), "key": key}
    known = {name: fact for name, fact in facts.items() if fact is not None}
    item = Item(None, None, orjson.dumps(known, option=orjson.OPT_UTC_Z), body)
    with connection.transaction():
        return create_one(connection, trigger, item, key=key, key_scope=_PERSON)
