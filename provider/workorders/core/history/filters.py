"""Selects the work orders to list, count, rerun, cancel or export, for every source."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from pydantic import ConfigDict, TypeAdapter

from workorders.core import triggers, workflows
from workorders.core.history import search_index
from workorders.core.ids import first_id
from workorders.core.postgres.connection import Connection, transaction_time
from workorders.core.postgres.named_queries import load_queries
from workorders.core.selectors import ordering_keys_of

_QUERIES = load_queries("workorders.core.history", "sql/filters.sql")

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
