"""The search for work orders: the fields of its address, the rights that it takes, and how many it selects."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal
from urllib.parse import urlencode
from uuid import UUID

from fastapi import HTTPException

from workorders import dag_ids, times
from workorders.core.bulk import jobs
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.states import UNFINISHED, WAITING, WorkOrderState
from workorders.core.workflows import list_names
from workorders.pages.access import Right, Viewer

Kind = Literal["rerun", "cancel", "export"]

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
    if "state" in given and given["state"] not in [*WorkOrderState]:
        raise _wrong("state", f"one of {', '.join(WorkOrderState)}")
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


@dataclass(frozen=True, slots=True)
class Counted:
    """What a rerun, a cancel, or an export would find."""

    kind: Kind
    states: Mapping[str, int]
    """Work orders by state."""
    without_input: int
    """For a rerun, those that have ended and whose input was erased."""

    @property
    def total(self) -> int:
        """Return how many work orders were selected."""
        return sum(self.states.values())

    @property
    def skipped(self) -> Mapping[str, int]:
        """Return how many stay as they are, by the reason."""
        waiting = sum(self.states.get(state, 0) for state in WAITING)
        unfinished = sum(self.states.get(state, 0) for state in UNFINISHED)
        reasons: Mapping[Kind, Mapping[str, int]] = {
            "rerun": {
                "they wait, run, or are parked already": unfinished,
                "retention has erased their input": self.without_input,
            },
            "cancel": {"only a work order that waits can be cancelled": self.total - waiting},
            "export": {},
        }
        return {reason: number for reason, number in reasons[self.kind].items() if number}

    @property
    def may_continue(self) -> bool:
        """Return whether a rerun can continue some of them, because they have not succeeded."""
        return not self.states.keys() <= UNFINISHED | {"success"}

    @property
    def may_start_over(self) -> bool:
        """Return whether some of them have had a run, so that a rerun from the start differs."""
        return not self.states.keys() <= UNFINISHED | {"rejected"}

    @property
    def left(self) -> int:
        """Return how many are rerun, cancelled, or exported, if it is known."""
        return self.total - sum(self.skipped.values())


def count(connection: Connection, wanted: Filter, kind: Kind) -> Counted:
    """Return what a selection has."""
    erased = work_orders.count_without_input(connection, wanted) if kind == "rerun" else 0
    return Counted(kind, jobs.count_matching(connection, wanted), erased)


def rights_to(right: Right, wanted: Filter) -> Sequence[Right]:
    """Return what it takes to act on a search: one by words or by an ordering key answers what inputs contain."""
    asks_inputs = wanted.text is not None or wanted.ordering_key is not None
    return (right, Right.READ_INPUT) if asks_inputs else (right,)


def require_right(connection: Connection, viewer: Viewer, right: Right, wanted: Filter) -> list[str]:
    """Refuse a user without the right to all that a filter may select; return the Dags that were asked about."""
    workflows = workflows_of(connection, wanted, list_names(connection))
    if wanted.selected is not None and not workflows:
        raise HTTPException(404, "The work orders that were selected do not exist any more. Nothing was changed.")
    dags = [dag_ids.of_workflow(workflow) for workflow in workflows]
    for needed in rights_to(right, wanted):
        viewer.require(needed, *dags)
    return dags


def workflows_of(connection: Connection, wanted: Filter, workflows: Sequence[str]) -> Sequence[str]:
    """Return the workflows, of all there are, whose work orders a filter may select.

    A trigger does not limit them: its work orders keep the workflow that it had when they were created.
    """
    if wanted.workflow is not None:
        return [wanted.workflow]
    if wanted.selected is not None:
        return work_orders.list_workflows_of(connection, wanted.selected)
    return workflows
