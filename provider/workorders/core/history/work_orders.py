"""Lists, counts, returns, and exports work orders of every source."""

from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from tempfile import SpooledTemporaryFile
from typing import Final
from uuid import UUID

from workorders.core.exceptions import UnknownNameError
from workorders.core.history.filters import Filter, find_page, query_arguments, until_now
from workorders.core.ids import time_of
from workorders.core.postgres.connection import Connection, fetch_row, find_row, list_rows
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.history", "sql/work_orders.sql", blocks_from="sql/filters.sql")

ALL: Final = 2**30
"""Characters, or bytes: more than Postgres holds in a value."""
STEP_BYTES: Final = 16 * 1024 * 1024
"""Stored bytes of what one transaction exports or reruns. A step of many large values would fill the memory, and take
longer than a worker may be silent."""
_WINDOW: Final = 10_000
"""Work orders whose words one query of a job searches."""
EXPORT_STEP: Final = 200
"""Work orders that are read at once, while the caller waits."""
_PART_BYTES: Final = 64 * 1024
_BYTES_IN_MEMORY: Final = 1024 * 1024
"""Of a step of an export; what is more goes to a temporary file."""


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrder(WorkOrderSummary):
    """Everything about one work order, apart from its runs."""

    trigger_type: str | None
    request: str | None
    """Metadata of the event as indented JSON text."""
    body: str | None
    """The input as indented JSON text, with every digit that Postgres holds; None when rejected."""
    detail: str | None
    """Of the rejection."""
    duplicate_of: UUID | None
    """The work order whose event came again as this one; None if that is not known, or this is no duplicate."""
    raw: bytes | None
    """The raw value of a rejected event; None also when the event's value was null."""
    request_bytes: int | None
    """Of all the request; the text may be its beginning. The same for the other two."""
    body_bytes: int | None
    raw_bytes: int | None


@dataclass(frozen=True, slots=True)
class Matching:
    """Some of the work orders that match a filter."""

    ids: list[UUID]
    """In the order of their creation."""
    looked_until: UUID | None
    """The next ones are after this id; None when there are no more."""


def newest_by_trigger(connection: Connection, triggers: Collection[str]) -> Mapping[str, datetime]:
    """Return when the newest work order of each trigger was created, of those that the search index contains."""
    rows = connection.execute(_QUERIES["newest_of_triggers"], {"triggers": list(triggers)})
    return {trigger: time_of(id_) for trigger, id_ in rows}


@dataclass(frozen=True, slots=True)
class Counts:
    """Work orders by state, as they were."""

    by_state: dict[str, int]
    counted_at: datetime | None
    """None when they were never counted."""


def list_work_orders(
    connection: Connection, wanted: Filter, *, before: UUID | None = None, limit: int = 50
) -> list[WorkOrderSummary]:
    """Return a page of work orders, newest first; `before` is the last id of the page before it."""
    given = {**query_arguments(connection, wanted), "before_id": before, "limit": limit}
    ids = find_page(connection, given)
    return list_rows(connection, WorkOrderSummary, _QUERIES["work_orders"], {"ids": ids})


def count_by_state(connection: Connection, wanted: Filter) -> dict[str, int]:
    """Return the number of these work orders by state, without the states that have none.

    Reads every one of them; `latest_counts` returns stored counts, which are a few minutes old.
    """
    return dict(connection.execute(_QUERIES["count_by_state"], query_arguments(connection, wanted)).fetchall())


def refresh_counts(connection: Connection, *, even_if_recent: bool = False) -> bool:
    """Count again if the counts are old enough, in its own transaction; return whether it did.

    Exact counts would slow down every change of a state, and counting takes about a second per five million work
    orders. So the counts are stored, and counting takes at most a twentieth of the time.
    """
    with connection.transaction():
        connection.execute(_QUERIES["lock_counts"])
        if not even_if_recent and fetch_row(connection, _QUERIES["are_counts_recent"], {})[0]:
            return False
        connection.execute(_QUERIES["forget_counts"])
        connection.execute(_QUERIES["recount"])
    return True


def latest_counts(connection: Connection, *, workflow: str | None = None) -> Counts:
    """Return the numbers as they were last counted, of all work orders or of a workflow's."""
    by_state: dict[str, int] = dict(connection.execute(_QUERIES["counts"], {"workflow": workflow}).fetchall())
    return Counts(by_state, fetch_row(connection, _QUERIES["counted_at"], {})[0])


def count_without_input(connection: Connection, wanted: Filter) -> int:
    """Return how many of these work orders have ended and have no input any more, because retention has erased it.

    Reads every one of them.
    """
    return int(fetch_row(connection, _QUERIES["count_without_input"], query_arguments(connection, wanted))[0])


def find_matching(
    connection: Connection, wanted: Filter, *, after: UUID | None, limit: int, reads_inputs: bool = True
) -> Matching:
    """Return the next of these work orders in the order of their creation, as many as one step may read.

    They may be fewer than `limit`. A step that reads inputs has `STEP_BYTES` at most, unless the first one alone has
    more.
    """
    given = {**query_arguments(connection, wanted), "after_id": after, "limit": limit, "window": _WINDOW}
    query = _QUERIES["matching" if wanted.text is None else "matching_with_words"]
    found, looked_until = fetch_row(connection, query, given)
    if not reads_inputs:
        return Matching(found, looked_until)
    sizes = connection.execute(_QUERIES["stored_bytes"], {"ids": found})
    ids = found[: max(1, sum(total <= STEP_BYTES for total in accumulate(size for (size,) in sizes)))]
    return Matching(ids, ids[-1] if len(ids) < len(found) else looked_until)


def export_parts(connection: Connection, wanted: Filter) -> Generator[bytes]:
    """Yield an export in parts, the oldest work order first; work orders that are created meanwhile are not in it.

    It reads a whole step before the caller gets the first part of it, and no transaction is open while the caller has a
    part: a slow caller must not keep one open. What is deleted meanwhile is left out.
    """
    with SpooledTemporaryFile(_BYTES_IN_MEMORY) as lines:
        with connection.transaction():
            wanted = until_now(connection, wanted)
        after: UUID | None = None
        is_complete = False
        while not is_complete:
            with connection.transaction():
                found = find_matching(connection, wanted, after=after, limit=EXPORT_STEP)
                # Row by row, because a body may be hundreds of times as long as its stored form. Not by `writelines`,
                # which leaves memory only after the last line.
                for (line,) in connection.cursor().stream(_QUERIES["lines_of_export"], {"ids": found.ids}):
                    lines.write(f"{line}\n".encode())
            after = found.looked_until
            is_complete = after is None
            lines.seek(0)
            while part := lines.read(_PART_BYTES):
                yield part
            lines.seek(0)
            lines.truncate()


def get_work_order(connection: Connection, id_: UUID, *, max_characters: int = ALL, max_bytes: int = ALL) -> WorkOrder:
    """Return the work order of that id, with no more than the beginning of what may have megabytes."""
    arguments = {"id": id_, "max_characters": max_characters, "max_bytes": max_bytes}
    found = find_row(connection, WorkOrder, _QUERIES["work_order"], arguments)
    if found is None:
        raise UnknownNameError(f"There is no work order {id_} in this database; see `workorders work-orders list`.")
    return found


def list_workflows_of(connection: Connection, ids: Collection[UUID]) -> list[str]:
    """Return the workflows of some work orders, by name."""
    return [name for (name,) in connection.execute(_QUERIES["workflows_of"], {"ids": list(ids)})]
