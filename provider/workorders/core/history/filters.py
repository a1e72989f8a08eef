"""Selects the work orders to list, count, rerun, cancel or export, for every source, and finds those of a page.

To find a page, it chooses the index, because Postgres's planner cannot always choose well: it assumes that rare rows
are spread evenly. To find a word, a trigger or a pending work order that is far from the newest, it would read
everything before it. So another index is used for these.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final
from uuid import UUID

from pydantic import ConfigDict, TypeAdapter

from workorders.core import triggers, workflows
from workorders.core.history import search_index
from workorders.core.ids import first_id
from workorders.core.postgres.connection import Connection, fetch_row, transaction_time
from workorders.core.postgres.named_queries import load_queries
from workorders.core.selectors import ordering_keys_of

_QUERIES = load_queries("workorders.core.history", "sql/filters.sql")
_PAGES = load_queries("workorders.core.history", "sql/paging.sql", blocks_from="sql/filters.sql")

_NEWEST: Final = 20_000
"""A word in one of 400 work orders fills a page of 50 with these. The list of a rarer word is short enough to be read
as fast, up to ten million work orders."""
_MAX_IDS: Final = 20_000
_COMMON_STATES: Final = (None, "success")

CLOCKS_APART = timedelta(hours=1)
"""The time in an id is its creator's, `created_at` is the database's. The search in ids is this much wider on both
sides. So it finds a work order of a machine with a wrong clock, or of a long transaction, by its `created_at`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Selects work orders; a field that is None selects all."""

    #: A condition that is not known any more must not select all.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    trigger: str | None = None
    workflow: str | None = None
    state: str | None = None
    rejection: str | None = None
    """Code of the rejection, such as `not-json`."""
    since: datetime | None = None
    """Created at this time or later."""
    until: datetime | None = None
    """Created before this time."""
    stream: str | None = None
    """Name of the stream, or the start of its name."""
    from_position: int | None = None
    """First position in the stream; positions are half-open, `[from, to)`."""
    to_position: int | None = None
    selected: tuple[UUID, ...] | None = None
    """Ids of the work orders that a person has named, or ticked."""
    ordering_key: str | None = None
    """Value of the ordering key, as text or as JSON: `17` is the text and the number."""
    text: str | None = None
    """Words that the body, the request or the rejection contains, all of them; `word*` matches the start of a word."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are not None as values of JSON."""
        given: dict[str, Any] = _ADAPTER.dump_python(self, mode="json", exclude_none=True)
        return given

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Filter":
        """Return the filter from the result of `to_json`."""
        return _ADAPTER.validate_python(given)

    def __str__(self) -> str:
        """Return the filter in words, for a list."""
        return ", ".join(f"{name} {_words(value)}" for name, value in self.to_json().items()) or "all"


_ADAPTER = TypeAdapter(Filter)


def _words(value: object) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)


def until_now(connection: Connection, wanted: Filter) -> Filter:
    """Return the filter without the work orders that are created after the transaction began."""
    now = transaction_time(connection)
    return replace(wanted, until=min(now, wanted.until or now))


def query_arguments(connection: Connection, wanted: Filter) -> dict[str, Any]:
    """Return the arguments of the queries: names as ids, times as ranges of ids, the words of a text, and no page.

    Raises:
        UnknownNameError: no trigger, or no workflow, has that name.
        ConfigurationError: the text contains no word.
    """
    trigger_id = None if wanted.trigger is None else triggers.find(connection, wanted.trigger).id
    stream_ids = None
    if wanted.stream is not None:
        given = {"beginning": wanted.stream, "trigger_id": trigger_id}
        stream_ids = [id_ for (id_,) in connection.execute(_QUERIES["find_streams"], given)]
    return {
        **asdict(wanted),
        "selected": None if wanted.selected is None else list(wanted.selected),
        "trigger_id": trigger_id,
        "workflow_id": None if wanted.workflow is None else workflows.find_id(connection, wanted.workflow),
        "stream_ids": stream_ids,
        "first_id": None if wanted.since is None else first_id(wanted.since - CLOCKS_APART),
        "end_id": None if wanted.until is None else first_id(wanted.until + CLOCKS_APART),
        "before_id": None,
        "after_id": None,
        "until_id": None,
        "ordering_keys": None if wanted.ordering_key is None else ordering_keys_of(wanted.ordering_key),
        "words": None if wanted.text is None else search_index.to_tsquery_literal(wanted.text),
    }


def find_page(connection: Connection, given: Mapping[str, Any]) -> list[UUID]:
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
    all_of_them, found = fetch_row(connection, _PAGES[query], {**given, "newest": _NEWEST})
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
        connection.execute(_PAGES["index_scans_only"])
        yield


def _ids(connection: Connection, query: str, given: Mapping[str, Any]) -> list[UUID]:
    return [row[0] for row in connection.execute(_PAGES[query], given)]
