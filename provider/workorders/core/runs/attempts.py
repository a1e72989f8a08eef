"""The attempts at a work order that came before a run: what they began may still go on somewhere else."""

from dataclasses import dataclass
from itertools import takewhile
from uuid import UUID

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.runs.claiming import ClaimedRun

_QUERIES = load_queries("workorders.core.runs", "sql/attempts.sql")
_LOST = "lost"


@dataclass(frozen=True, slots=True)
class Earlier:
    """Runs of a work order before a run, newest first."""

    lost: tuple[UUID, ...] = ()
    """Those right before it that were lost: nobody knows how what they began has ended."""
    ended: tuple[UUID, ...] = ()
    """All before those. Their ends are known, and what they began may outlive them all the same."""


def earlier(connection: Connection, run: ClaimedRun) -> Earlier:
    """Return the runs that came before one."""
    if run.attempt == 1:
        return Earlier()
    arguments = {"work_order_id": run.work_order_id, "attempt": run.attempt}
    return divided(connection.execute(_QUERIES["earlier"], arguments).fetchall())


def divided(attempts: list[tuple[UUID, str]]) -> Earlier:
    """Divide ids and states of attempts, newest first, at the newest one that was not lost."""
    lost = tuple(id_ for id_, _ in takewhile(lambda attempt: attempt[1] == _LOST, attempts))
    return Earlier(lost, tuple(id_ for id_, _ in attempts[len(lost) :]))
