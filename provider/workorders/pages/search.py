"""The search for work orders as the address of its page has it: the same fields as those of the command line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from fastapi import HTTPException

from workorders import times
from workorders.core.history.filters import Filter
from workorders.core.states import WorkOrderState

_TEXTS: Final = ("state", "trigger", "workflow", "rejection", "text", "ordering_key", "stream")
"""Parameters that a filter takes as they are."""
FIELDS: Final = (*_TEXTS, "from_position", "to_position", "since", "until", "id")
"""The parameters of an address, in the order in which the page shows them."""
DEFAULT_SINCE: Final = "7d"
ALL_TIMES: Final = "all"
_MAX_LENGTH: Final = 1_000
MAX_NUMBER: Final = 2**63 - 1
"""As Postgres takes it."""
_DIGITS: Final = re.compile("[0-9]{1,19}")
"""Of such a number; Python does not read thousands of them."""
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class Search:
    """What a person searches for."""

    given: Mapping[str, str]
    """The fields that are not empty, as they were typed."""
    filter: Filter
    """What they select."""

    @property
    def is_empty(self) -> bool:
        """Return whether nothing but a time limits the search."""
        return self.filter.selected is None and not set(self.given) - {"since", "until"}

    def query(self) -> str:
        """Return the query of an address with this search."""
        return urlencode(self.given)

    def fixed(self, now: datetime) -> "Search":
        """Return the search with times that mean the same tomorrow, and without what is created from now on."""
        until = min(now, self.filter.until or now)
        given = {**self.given, "until": until.isoformat()}
        given["since"] = ALL_TIMES if self.filter.since is None else self.filter.since.isoformat()
        return Search(given, replace(self.filter, until=until))

    def of_selected(self, ids: Sequence[UUID]) -> "Search":
        """Return a search that selects these work orders only; the same search if there are none."""
        return replace(self, filter=Filter(selected=tuple(ids))) if ids else self


def read(query: Mapping[str, str], now: datetime) -> Search:
    """Return the search that an address asks for; without a time, that of the last seven days.

    Raises:
        HTTPException: a field has a wrong form; the sentence names it and the right form.
    """
    given = {name: query[name].strip() for name in FIELDS if query.get(name, "").strip()}
    for name, value in given.items():
        if len(value) > _MAX_LENGTH or "\0" in value:
            raise _wrong(name, f"at most {_MAX_LENGTH} characters of text")
    if "id" not in given and "stream" not in given:
        given.setdefault("since", DEFAULT_SINCE)
    states = [state.value for state in WorkOrderState]
    if given.get("state", states[0]) not in states:
        raise _wrong("state", f"one of {', '.join(states)}")
    texts: dict[str, Any] = {name: given.get(name) for name in _TEXTS}
    return Search(
        given,
        Filter(
            **texts,
            since=None if given.get("since") == ALL_TIMES else read_time("since", given.get("since", ""), now),
            until=read_time("until", given.get("until", ""), now),
            from_position=read_position("from_position", given.get("from_position", "")),
            to_position=read_position("to_position", given.get("to_position", "")),
            selected=(read_id(given["id"]),) if "id" in given else None,
        ),
    )


def read_id(text: str) -> UUID:
    """Return the id that a text means; refuse another text."""
    if not _UUID.fullmatch(text.strip()):
        raise _wrong("id", "the id of a work order, such as 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f")
    return UUID(text.strip())


def read_time(name: str, text: str, now: datetime) -> datetime | None:
    """Return the time that the text of a field means; None without a text. Refuse another text."""
    if not text.strip():
        return None
    # In an address, a plus sign that was not written as %2B arrives as a space.
    time = times.parse(text.replace(" ", "+") if "T" in text else text, now=now.astimezone(UTC))
    if time is None:
        raise _wrong(name, times.FORM)
    return time


def read_position(name: str, text: str) -> int | None:
    """Return the position or the offset that the text of a field means; None without a text. Refuse another text."""
    text = text.strip()
    if text and not (_DIGITS.fullmatch(text) and int(text) <= MAX_NUMBER):
        raise _wrong(name, "a whole number from 0")
    return int(text) if text else None


def _wrong(name: str, form: str) -> HTTPException:
    return HTTPException(422, f"{name}: nothing was searched or changed, because this takes {form}. Correct the field.")
