"""A work order that a person asks for, with who and why, of any trigger."""

from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from workorders.core.creation.create_one import Single, create_one
from workorders.core.creation.json_body import is_odd, judge
from workorders.core.exceptions import WorkOrdersError
from workorders.core.items import MAX_BODY_BYTES, Item
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger

KEY_SCOPE = "person"
"""Scope of the keys that people give."""


class NotAnInputError(WorkOrdersError, ValueError):
    """What a person gave cannot be the input of a work order; nothing was created."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asks for."""

    body: bytes
    """The input as JSON text."""
    who: str
    why: str
    key: str | None
    """What the event is known by: the same key creates nothing twice. None when each wish is an event of its own."""
    account: str | None = None
    """The account that it is asked from, whatever `who` says; None where nobody knows."""


def create(connection: Connection, trigger: Trigger, wish: Wish) -> Single:
    """Create the work order, in a transaction of its own, or find the one of the key.

    Raises:
        NotAnInputError: the body is no JSON object that can be an input.
        psycopg.Error: the database failed; nothing was created.
    """
    rejection = judge(wish.body, MAX_BODY_BYTES, odd=is_odd(wish.body))
    if rejection is not None:
        raise NotAnInputError(
            f"Trigger {trigger.name}: the input must be a JSON object, and {rejection.detail}; nothing was created."
        )
    request = {"who": wish.who, "why": wish.why, "created_at": datetime.now(UTC)}
    if wish.account is not None:
        request["account"] = wish.account
    if wish.key is not None:
        request["key"] = wish.key
    encoded = orjson.dumps(request, option=orjson.OPT_UTC_Z)
    with connection.transaction():
        return create_one(connection, trigger, Item(None, None, encoded, wish.body), key=wish.key, key_scope=KEY_SCOPE)
