"""Finds the work orders of a page, newest first, and chooses the index, because the planner cannot always choose well.

The planner assumes that rare rows are spread evenly. To find a word, a trigger or a pending work order that is far from
the newest, it would read everything before it. So this module uses another index for these.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from workorders.core.history import search_index
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.history", "sql/paging.sql", blocks_from="sql/filters.sql")

_NEWEST: Final = 20_000
"""A word in one of 400 work orders fills a page of 50 with these. The list of a rarer word is short enough to be read
as fast, up to ten million work orders."""
_MAX_IDS: Final = 20_000
_COMMON_STATES: Final = (None, "success")


def find_ids(connection: Connection, given: Mapping[str, Any]) -> list[UUID]:
    """Return the ids of a page, newest first.

    `given` are the filter's arguments, with `before_id` and the page's `limit`.
    """
    if given["words"] is not None:
        with _index_scans_only(connection):
            return _by_words_and_owner(connection, given)
    if given["state"] == "pending" and given["selected"] is None:
        return _ids(connection, "newest_waiting", given)
    if _is_selective(given):
        return _ids(connection, "newest_ids", given)
    if given["stream_ids"] is not None and given["ordering_keys"] is None:
        return _in_streams(connection, given)
    has_list = any(given[name] is not None for name in ("ordering_keys", "trigger_id", "workflow_id"))
    return _by_list(connection, given) if has_list else _ids(connection, "newest_ids", given)


def _is_selective(given: Mapping[str, Any]) -> bool:
    """Return whether an index finds the matching rows in their order, or few enough to sort."""
    return given["selected"] is not None or given["rejection"] is not None or given["state"] not in _COMMON_STATES


def _in_streams(connection: Connection, given: Mapping[str, Any]) -> list[UUID]:
    found = _ids(connection, "newest_among", {**given, "newest": _NEWEST})
    if len(found) == given["limit"]:
        return found
    with _index_scans_only(connection):
        return _ids(connection, "gathered", given)


def _by_list(connection: Connection, given: Mapping[str, Any]) -> list[UUID]:
    """Read the work orders that may not be listed yet, and then those of a trigger, a workflow, or an ordering key."""
    listed_until = search_index.complete_up_to(connection)
    found = _ids(connection, "newest_ids", {**given, "after_id": listed_until})
    if len(found) == given["limit"]:
        return found
    rest = {**given, "until_id": listed_until, "limit": given["limit"] - len(found)}
    return found + _ids(connection, "newest_listed", rest)


def _by_words_and_owner(connection: Connection, given: Mapping[str, Any]) -> list[UUID]:
    """Search the newest work orders, which contain every common word, and then the lists of the words."""
    found = None
    is_selective = given["state"] == "pending" or _is_selective(given)
    if not is_selective:
        found = _newest(connection, "listed_with_words", given)
    if found is None and (is_selective or given["stream_ids"] is not None):
        found = _newest(connection, "gathered_with_words", given)
    return _by_words(connection, given) if found is None else found


def _newest(connection: Connection, query: str, given: Mapping[str, Any]) -> list[UUID] | None:
    """Search words among the newest; return None if the page is not full and there are more."""
    all_of_them, found = fetch_row(connection, _QUERIES[query], {**given, "newest": _NEWEST})
    return list(found) if all_of_them or len(found) == given["limit"] else None


def _by_words(connection: Connection, given: Mapping[str, Any]) -> list[UUID]:
    """Read the lists of the words, `_MAX_IDS` ids per query, and return those that pass the rest of the filter."""
    before, found = given["before_id"], list[UUID]()
    while len(found) < given["limit"]:
        asked = {**given, "before_id": before, "newest": _MAX_IDS}
        candidates = _ids(connection, "ids_by_words", asked)
        rest = {**given, "selected": candidates, "limit": given["limit"] - len(found)}
        found += _ids(connection, "newest_ids", rest)
        if len(candidates) < _MAX_IDS:
            break
        before = candidates[-1]
    return found


@contextmanager
def _index_scans_only(connection: Connection) -> Iterator[None]:
    """Let the planner read by indexes only, until a rollback undoes it within the caller's transaction."""
    with connection.transaction(force_rollback=True):
        connection.execute(_QUERIES["index_scans_only"])
        yield


def _ids(connection: Connection, query: str, given: Mapping[str, Any]) -> list[UUID]:
    return [row[0] for row in connection.execute(_QUERIES[query], given)]
