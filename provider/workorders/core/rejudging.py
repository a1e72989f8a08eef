"""Judges rejected events again after a fix: a corrected setting, a raised limit, a better decoder."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final
from uuid import UUID

import psycopg

from workorders.core import search
from workorders.core.body import is_odd, judge
from workorders.core.database import Connection
from workorders.core.items import Item, Rejection
from workorders.core.queries import load_queries

_QUERIES = load_queries("workorders.core", "sql/reruns.sql")

REJUDGES_GROUP: Final = "workorders.rejudges"
"""Entry point group in which a trigger type announces its `Rejudge`."""
LARGEST_BODY: Final = 32 * 1024 * 1024
"""Bytes; up to here Postgres holds every value as jsonb."""

Rejudge = Callable[[Mapping[str, Any], bytes | None, bytes], Item]
"""Takes the trigger's definition as it is now, the raw value of a rejected event (None for null), and its request as
JSON; returns the event as an item once more. Neither stream nor position of the item counts."""


def accept(connection: Connection, ids: Sequence[UUID]) -> list[UUID]:
    """Judge these rejected work orders again, and return those that have an input now, in the caller's transaction.

    They have their dataclip then, and no rejection; a run they do not have yet. The others keep their raw value and get
    the reason that holds now.
    """
    rejected = connection.execute(_QUERIES["rejected"], {"ids": list(ids)}).fetchall()
    accepted = [row[0] for row in rejected if _accept(connection, *row)]
    search.write(connection, ids)
    return accepted


def _accept(  # noqa: PLR0917 - a row's columns
    connection: Connection,
    id_: UUID,
    raw: bytes | None,
    request: str,
    code: str,
    detail: str,
    type_: str | None,
    definition: Mapping[str, Any] | None,
) -> bool:
    item = rejudge_of(type_)(definition or {}, raw, request.encode())
    reason = item.rejection or Rejection(code, detail)
    if item.body is not None:
        refused = _store(connection, id_, item.body, item.request)
        if refused is None:
            return True
        reason = refused
    connection.execute(_QUERIES["update_rejection"], {"id": id_, "code": reason.code, "detail": reason.detail})
    return False


def _store(connection: Connection, id_: UUID, body: bytes, request: bytes) -> Rejection | None:
    """Put an input in the place of the rejection; return why not, if Postgres refuses it."""
    try:
        with connection.transaction():
            connection.execute(
                _QUERIES["insert_dataclip"], {"id": id_, "body": body.decode(), "request": request.decode()}
            )
    except (psycopg.DataError, psycopg.errors.ProgramLimitExceeded, psycopg.errors.StatementTooComplex) as error:
        return Rejection("refused-by-postgres", f"Postgres cannot store it: {error.diag.message_primary}")
    connection.execute(_QUERIES["delete_rejection"], {"id": id_})
    return None


@cache
def rejudge_of(type_: str | None) -> Rejudge:
    """Return how a trigger type judges again; by the rule for every body, if it announces nothing of its own."""
    for point in entry_points(group=REJUDGES_GROUP, name=type_ or ""):
        found: Rejudge = point.load()
        return found
    return by_the_common_rule


def by_the_common_rule(_definition: Mapping[str, Any], raw: bytes | None, request: bytes) -> Item:
    """Accept a JSON object that Postgres holds."""
    if raw is None:
        return Item(None, None, request, None, Rejection("null-value", "the value is null"))
    rejection = judge(raw, LARGEST_BODY, odd=is_odd(raw))
    if rejection is None:
        return Item(None, None, request, raw)
    return Item(None, None, request, None, rejection, raw)
