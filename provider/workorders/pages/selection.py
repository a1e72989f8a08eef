"""Counts the work orders of a selection, which takes seconds if they are millions, within the time that a page has."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

import psycopg

from workorders.core.bulk import jobs
from workorders.core.history import export, work_orders
from workorders.core.history.filters import Filter
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.states import UNFINISHED, WAITING

_QUERIES = load_queries("workorders.pages", "sql/selection.sql")

Kind = Literal["rerun", "cancel", "export"]
T = TypeVar("T")

_FIRST_MILLISECONDS: Final = 100
"""For the first answer; a page that has no count then asks again by itself."""
_MAX_MILLISECONDS: Final = 14_000
"""A second less than the browser waits for an answer."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a rerun, a cancel, or an export would find."""

    kind: Kind
    states: Mapping[str, int]
    """Work orders by state."""
    without_input: int | None = None
    """For a rerun, those that have ended and whose input was erased; None if to count them takes too long."""
    size: int | None = None
    """For an export, about how many bytes it has; None if that is not known."""

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
                "retention has erased their input": self.without_input or 0,
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


def count(connection: Connection, wanted: Filter, kind: Kind, *, patiently: bool) -> Counted | None:
    """Return what is known of a selection; None if to count it takes too long. It ends the transaction.

    Args:
        connection: in a transaction that has changed nothing.
        wanted: the selection.
        kind: what a person wants to do with it.
        patiently: whether it may take seconds. If not, all that is to be counted must be counted.

    Raises:
        UnknownTriggerError: no trigger has that name.
        UnknownWorkflowError: no workflow has that name.
        UnknownWorkOrderError: the filter names a work order that does not exist.
    """
    end = time.monotonic() + (_MAX_MILLISECONDS if patiently else _FIRST_MILLISECONDS) / 1000
    states = _until(end, connection, lambda: jobs.count_matching(connection, wanted))
    if states is None or kind == "cancel":
        return None if states is None else Counted(kind, states)
    if kind == "rerun":
        number = _until(end, connection, lambda: work_orders.count_without_input(connection, wanted))
        found = Counted(kind, states, without_input=number)
    else:
        number = _until(end, connection, lambda: export.estimate_bytes(connection, wanted, sum(states.values())))
        found = Counted(kind, states, size=number)
    return found if patiently or number is not None else None


def _until(end: float, connection: Connection, ask: Callable[[], T]) -> T | None:
    """Ask the database, and return None if there is no answer until then."""
    connection.rollback()
    try:
        milliseconds = max(1, int((end - time.monotonic()) * 1000))
        connection.execute(_QUERIES["limit_time"], {"milliseconds": milliseconds})
        return ask()
    except psycopg.errors.QueryCanceled:
        return None
    finally:
        connection.rollback()
