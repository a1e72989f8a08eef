"""What became of what: work orders listed, counted and shown, whatever their source. Reads only."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.rows import class_row

from workorders.core import triggers
from workorders.core.database import Connection
from workorders.core.exceptions import WorkOrdersError
from workorders.core.queries import load_queries

_QUERIES = load_queries("workorders.core", "sql/history.sql")

_CLOCKS_APART = timedelta(hours=1)
"""The time in an id is its maker's, `created_at` the database's. Ids are searched this much further on both sides, so
that a work order of a machine with a wrong clock, or of a long transaction, is found at the time that people see."""


class UnknownWorkOrderError(WorkOrdersError, LookupError):
    """There is no work order of that id."""


class UnknownWorkflowError(WorkOrdersError, LookupError):
    """No trigger ever named that workflow."""


@dataclass(frozen=True, slots=True)
class RegisteredTrigger:
    """A trigger as the database knows it, with its definition as it was when it last planned."""

    name: str
    type: str
    workflow: str
    definition: Mapping[str, Any]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which work orders to list; a field that is None lets every work order pass."""

    trigger: str | None = None
    workflow: str | None = None
    state: str | None = None
    reason: str | None = None
    """Code of the rejection, such as `not-json`."""
    since: datetime | None = None
    """Created at this time or later."""
    until: datetime | None = None
    """Created before this time."""
    stream: str | None = None
    """Name of the stream, or how its name begins."""
    from_position: int | None = None
    """First position in the stream; positions are half-open, `[from, to)`."""
    to_position: int | None = None


@dataclass(frozen=True, slots=True)
class WorkOrderSummary:
    """A work order in one line."""

    id: UUID
    trigger: str | None
    workflow: str | None
    state: str
    created_at: datetime
    stream: str | None
    """None when the event had no source key."""
    position: int | None
    reason: str | None
    """Code of the rejection; None for a work order with an input."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One attempt at a work order."""

    attempt: int
    state: str
    created_at: datetime
    claimed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error_type: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """Everything about one work order, apart from its runs."""

    id: UUID
    trigger: str | None
    trigger_type: str | None
    workflow: str | None
    state: str
    created_at: datetime
    stream: str | None
    position: int | None
    request: str | None
    """Metadata of the event as indented JSON text."""
    body: str | None
    """The input as indented JSON text, with every digit that Postgres holds; None when rejected."""
    reason: str | None
    """Code of the rejection; None for a work order with an input."""
    detail: str | None
    raw: bytes | None
    """The raw value of a rejected event; None also when the event's value was null."""


def registered_triggers(connection: Connection) -> list[RegisteredTrigger]:
    """Return every trigger that has planned something here, by name."""
    with connection.cursor(row_factory=class_row(RegisteredTrigger)) as cursor:
        return cursor.execute(_QUERIES["triggers"]).fetchall()


def work_orders(
    connection: Connection, wanted: Filter, *, before: UUID | None = None, limit: int = 50
) -> list[WorkOrderSummary]:
    """Return a page of work orders, newest first.

    Args:
        connection: where to ask.
        wanted: which of them.
        before: the last id of the page before; None for the first page.
        limit: length of the page.

    Raises:
        UnknownTriggerError: no trigger has that name.
        UnknownWorkflowError: no workflow has that name.
    """
    trigger_id = _trigger_id(connection, wanted.trigger)
    arguments = {
        "trigger_id": trigger_id,
        "workflow_id": _workflow_id(connection, wanted.workflow),
        "stream_ids": _stream_ids(connection, wanted.stream, trigger_id),
        "state": wanted.state,
        "reason": wanted.reason,
        "since": wanted.since,
        "until": wanted.until,
        "first_id": None if wanted.since is None else _first_id(wanted.since - _CLOCKS_APART),
        "end_id": None if wanted.until is None else _first_id(wanted.until + _CLOCKS_APART),
        "from_position": wanted.from_position,
        "to_position": wanted.to_position,
        "before_id": before,
        "limit": limit,
    }
    with connection.cursor(row_factory=class_row(WorkOrderSummary)) as cursor:
        return cursor.execute(_QUERIES["work_orders"], arguments, prepare=False).fetchall()


def count_by_state(
    connection: Connection, *, trigger: str | None = None, since: datetime | None = None
) -> dict[str, int]:
    """Return how many work orders there are in each state; a state without any is left out.

    Counting reads every work order since that time, or all of them.

    Raises:
        UnknownTriggerError: no trigger has that name.
    """
    arguments = {
        "trigger_id": _trigger_id(connection, trigger),
        "since": since,
        "first_id": None if since is None else _first_id(since - _CLOCKS_APART),
    }
    return dict(connection.execute(_QUERIES["count_by_state"], arguments, prepare=False).fetchall())


def work_order(connection: Connection, id_: UUID) -> WorkOrder:
    """Return the work order of that id.

    Raises:
        UnknownWorkOrderError: there is none.
    """
    with connection.cursor(row_factory=class_row(WorkOrder)) as cursor:
        found = cursor.execute(_QUERIES["work_order"], {"id": id_}).fetchone()
    if found is None:
        raise UnknownWorkOrderError(
            f"There is no work order {id_} in this database; see `workorders work-orders list`."
        )
    return found


def runs(connection: Connection, work_order_id: UUID) -> list[RunSummary]:
    """Return the runs of a work order, the first attempt first."""
    with connection.cursor(row_factory=class_row(RunSummary)) as cursor:
        return cursor.execute(_QUERIES["runs"], {"work_order_id": work_order_id}).fetchall()


def _first_id(time: datetime) -> UUID:
    """Return the smallest id of that millisecond: ids are UUIDs of version 7, which begin with Unix milliseconds."""
    return UUID(int=max(int(time.timestamp() * 1000), 0) << 80)


def _trigger_id(connection: Connection, name: str | None) -> int | None:
    return None if name is None else triggers.find(connection, name).id


def _workflow_id(connection: Connection, name: str | None) -> int | None:
    if name is None:
        return None
    row = connection.execute(_QUERIES["find_workflow"], {"name": name}).fetchone()
    if row is None:
        raise UnknownWorkflowError(f"No work order was ever created for a workflow {name}; see `workorders triggers`.")
    return int(row[0])


def _stream_ids(connection: Connection, beginning: str | None, trigger_id: int | None) -> list[int] | None:
    if beginning is None:
        return None
    arguments = {"beginning": beginning, "trigger_id": trigger_id}
    return [row[0] for row in connection.execute(_QUERIES["find_streams"], arguments)]
