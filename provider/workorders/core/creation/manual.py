"""Creates the work order that a person requests, for a trigger of any type, with the actor and the reason."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import orjson

from workorders.core.attribution import Attribution
from workorders.core.creation.create_one import CreateResult, create_one
from workorders.core.creation.json_validation import validate_body
from workorders.core.exceptions import WorkOrdersError
from workorders.core.items import MAX_BODY_BYTES, Item
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

KEY_SCOPE = "person"


class NotAnInputError(WorkOrdersError, ValueError):
    """The given body cannot be the input of a work order; nothing was created."""


@dataclass(frozen=True, slots=True)
class ManualRequest:
    """A work order that a person requests."""

    body: bytes
    by: Attribution
    key: str | None
    """Identifies the event: a second request with the same key creates nothing. None if each request is an event."""


def create(connection: Connection, trigger: Trigger, wanted: ManualRequest) -> CreateResult:
    """Create the work order, in its own transaction, or find the one of the key."""
    rejection = validate_body(wanted.body, MAX_BODY_BYTES)
    if rejection is not None:
        raise NotAnInputError(
            f"Trigger {trigger.name}: the input must be a JSON object, and {rejection.detail}; nothing was created."
        )
    facts = {**asdict(wanted.by), "created_at": datetime.now(UTC), "key": wanted.key}
    known = {name: fact for name, fact in facts.items() if fact is not None}
    encoded = orjson.dumps(known, option=orjson.OPT_UTC_Z)
    with connection.transaction():
        return create_one(
            connection, trigger, Item(None, None, encoded, wanted.body), key=wanted.key, key_scope=KEY_SCOPE
        )
