"""Lists the steps that work orders have finished, and explains what a run continues. Reads only."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from workorders.core.history.runs import RunRow
from workorders.core.postgres.connection import Connection, list_rows
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.history", "sql/steps.sql")

_UNKNOWN_END: Final = frozenset({"crashed", "killed", "lost"})
"""States of runs that ended at any point of their function."""
_MAX_CHARACTERS: Final = 2**31 - 1
_MAY_MISS: Final = (
    "A transaction that committed just before the end may be missing here; it is not executed again, because its own "
    "database knows it."
)
"""A worker stores the step of a transaction up to a second after its COMMIT, which another database has made."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step that a work order has finished."""

    name: str
    generation: int
    run_id: UUID
    """The run that executed it."""
    attempt: int
    finished_at: datetime
    committed_elsewhere: bool
    """Whether it is a transaction: its rows and its result committed together, in a database of the user."""
    result: str
    result_bytes: int
    """Of all the result."""

    @property
    def kind(self) -> str:
        """Return what the function called: `context.transaction` or `context.step`."""
        return "transaction" if self.committed_elsewhere else "step"


def list_steps(
    connection: Connection, work_order_id: UUID, *, until: RunRow | None = None, max_characters: int = _MAX_CHARACTERS
) -> Sequence[Step]:
    """Return the steps that a work order has finished, by generation and time, with so much of each result.

    `until` one of its runs: those of its generation that were finished when it ended, or by now.
    """
    arguments = {
        "work_order_id": work_order_id,
        "generation": until and until.generation,
        "attempt": until and until.attempt,
        "max_characters": max_characters,
    }
    return list_rows(connection, Step, _QUERIES["steps"], arguments)


def describe_end(state: str, finished: Sequence[Step]) -> str | None:
    """Return what a run that ended at an unknown point had finished, and what a rerun does; None for any other run."""
    if state not in _UNKNOWN_END:
        return None
    if not finished:
        return (
            f"No finished step was recorded before this run ended as {state}. A retry or a rerun begins at the start. "
            f"{_MAY_MISS}"
        )
    steps = "One step was" if len(finished) == 1 else f"{len(finished):,} steps were"
    return (
        f"{steps} finished when this run ended as {state}; the last one is {finished[-1].name}. A retry or a rerun "
        f"continues there: it gets their results, and does not execute them again. A step that was being executed is "
        f"executed again. {_MAY_MISS}"
    )
