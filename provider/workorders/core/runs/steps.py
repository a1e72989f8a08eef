"""The steps that runs have finished: later attempts of the same generation get their results."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from workorders.core import workers
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.runs", "sql/steps.sql")


@dataclass(frozen=True, slots=True)
class FinishedStep:
    """A step that a run has finished, or whose result it got from its own database."""

    run_id: UUID
    """The run that reports it."""
    name: str
    result: bytes
    finished_at: datetime
    made_by: UUID
    """The run that called the function: that one, or an earlier attempt."""
    committed_elsewhere: bool
    """Whether `context.transaction` made it; otherwise the run waits until it is stored."""


@dataclass(frozen=True, slots=True)
class StoredSteps:
    """What a later attempt gets."""

    generation: int
    results: tuple[tuple[str, str], ...]
    """Name and JSON text of each step of `context.step`."""


def store(connection: Connection, worker_id: UUID, steps: Sequence[FinishedStep]) -> frozenset[UUID]:
    """Store steps in one statement, and return those of their runs that the worker still owns.

    Of the others nothing is stored.
    """
    rows = connection.execute(
        _QUERIES["store"],
        {
            "worker_id": worker_id,
            "ids": [step.run_id for step in steps],
            "names": [step.name for step in steps],
            "results": [step.result.decode() for step in steps],
            "finished": [step.finished_at for step in steps],
            "made_by": [step.made_by for step in steps],
            "elsewhere": [step.committed_elsewhere for step in steps],
        },
    ).fetchall()
    if not rows:
        raise workers.lost(worker_id)
    return frozenset(run_id for (run_id,) in rows if run_id)


def find(connection: Connection, run_ids: Collection[UUID]) -> dict[UUID, StoredSteps]:
    """Return the generation of each run, and the steps that earlier attempts have stored in it."""
    rows = connection.execute(_QUERIES["find"], {"ids": list(run_ids)})
    return {run_id: StoredSteps(generation, tuple(map(tuple, results))) for run_id, generation, results in rows}
