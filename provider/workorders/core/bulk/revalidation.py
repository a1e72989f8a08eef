"""Validates rejected events again after a fix: a corrected setting, a raised limit, a better decoder."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final
from uuid import UUID

from psycopg.rows import class_row

from workorders.core import triggers
from workorders.core.admission.duplicates import DUPLICATE
from workorders.core.admission.pipeline import AdmissionPipeline
from workorders.core.admission.rules import Chunk
from workorders.core.creation.json_validation import validate_body
from workorders.core.creation.work_orders import rejection_of
from workorders.core.history import search_index
from workorders.core.items import MAX_BODY_BYTES, Item, Rejection
from workorders.core.postgres.connection import VALUE_ERRORS, Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.selectors import Selector

_QUERIES = load_queries("workorders.core.bulk", "sql/revalidation.sql")

REVALIDATORS_GROUP: Final = "workorders.revalidators"
"""Entry point group in which a trigger type registers its `Revalidator`."""

Revalidator = Callable[[Mapping[str, Any], bytes | None, bytes], Item]
"""Takes the trigger's definition as it is now, the raw value of a rejected event (None for null), and its request as
JSON; returns the event as an item. Stream and position of the item do not count."""


@dataclass(frozen=True, slots=True)
class _Rejected:
    id: UUID
    raw: bytes | None
    request: str
    code: str
    detail: str
    trigger: str
    type: str
    definition: Mapping[str, Any]
    ordering_key: str | None
    stream: str | None
    stream_id: int | None
    position: int | None


def revalidate_rejected(connection: Connection, ids: Sequence[UUID]) -> list[UUID]:
    """Validate rejected work orders again, which the caller has locked; return those that have an input now.

    They get a dataclip instead of the rejection, and wait for a run. The trigger's rules apply to them like to new
    events, so that a sequence may park one; but limits only count them. The others keep their raw value and get their
    present reason. A duplicate stays one.
    """
    pipelines: dict[str, AdmissionPipeline | None] = {}
    with connection.cursor("rejected", row_factory=class_row(_Rejected)) as cursor:
        cursor.itersize = 1  # one raw value in memory at a time, because each may be as large as Postgres stores
        for row in cursor.execute(_QUERIES["rejected"], {"ids": list(ids)}):
            item = None if row.code == DUPLICATE else _accept(connection, row)
            if item is None:
                continue
            if row.trigger not in pipelines:
                trigger = triggers.find(connection, row.trigger)
                pipelines[row.trigger] = AdmissionPipeline.of(connection, trigger, by_person=True)
            if (pipeline := pipelines[row.trigger]) is not None:
                chunk = Chunk([row.id.bytes], [item])
                for _ in pipeline.observe(chunk, {row.stream: row.stream_id}):
                    pass
                pipeline.add(chunk)
    for pipeline in pipelines.values():
        if pipeline is not None:
            pipeline.decide()
    search_index.write_index_of_locked(connection, ids)
    return [row[0] for row in connection.execute(_QUERIES["pending"], {"ids": list(ids)})]


def _accept(connection: Connection, row: _Rejected) -> Item | None:
    """Store the input if the event has one now, without its rejection, and return the item; or update the reason."""
    item = revalidator_of(row.type)(row.definition, row.raw, row.request.encode())
    reason = item.rejection or Rejection(row.code, row.detail)
    if item.body is not None:
        texts = {"body": item.body.decode(), "request": item.request.decode()}
        item = item._replace(stream=row.stream, position=row.position)
        key = Selector.parse(row.ordering_key).ordering_key(item) if row.ordering_key else None
        try:
            with connection.transaction():
                connection.execute(_QUERIES["accept"], {"id": row.id, "ordering_key": key, **texts})
            return item
        except VALUE_ERRORS as error:
            reason = rejection_of(error)
    connection.execute(_QUERIES["update_rejection"], {"id": row.id, "code": reason.code, "detail": reason.detail})
    return None


@cache
def revalidator_of(type_: str) -> Revalidator:
    """Return the revalidator of a trigger type, or the default one if the type registers none."""
    for point in entry_points(group=REVALIDATORS_GROUP, name=type_):
        found: Revalidator = point.load()
        return found
    return default_revalidator


def default_revalidator(_definition: Mapping[str, Any], raw: bytes | None, request: bytes) -> Item:
    """Accept a JSON object that Postgres can store."""
    if raw is None:
        return Item(None, None, request, None, Rejection("null-value", "the value is null"))
    rejection = validate_body(raw, MAX_BODY_BYTES)
    if rejection is None:
        return Item(None, None, request, raw)
    return Item(None, None, request, None, rejection, raw)
