"""Turns: a workflow that waits for a worker says so, and another one that has worked for a while ends its turn for it.

Who asks is written down by what waits for runs, at the moment when it found some; so a workflow that is switched off
does not ask. A request counts only while there is something to claim and nobody works on it. One that stays unanswered
though turns were ended for it, since its DAG was paused in that very moment or fails again and again, is given further
turns ever more seldom.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, LiteralString

from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.runs.lifecycle import GRACE_SECONDS
from workorders.core.workflows import Workflow

_QUERIES = load_queries("workorders.core.runs", "sql/fair_share.sql")
_CLAIMABLE = load_queries("workorders.core.runs", "sql/claimable.sql")["claimable"]

PATIENCE_SECONDS: Final = 10.0
"""Time that a task needs to start where a worker is free: a request that is younger ends nobody's turn."""
GIVEN_AGAIN_SECONDS: Final = 30.0
"""Time after which a turn ends once more for a request that the first one did not answer; twice as long each time."""
LONGEST_GIVEN_AGAIN_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Request:
    """A workflow that has something to claim, and asks for a worker."""

    workflow_id: int
    name: str
    waited_seconds: float
    given: int = 0
    """Turns that others have ended for it since it asked."""
    given_seconds_ago: float | None = None
    """Time since the last of them."""

    @property
    def due(self) -> bool:
        """Whether a turn is to end for it now."""
        if self.waited_seconds < PATIENCE_SECONDS:
            return False
        if self.given_seconds_ago is None:
            return True
        pause = GIVEN_AGAIN_SECONDS * 2.0 ** min(self.given - 1, 30)
        return self.given_seconds_ago >= min(pause, LONGEST_GIVEN_AGAIN_SECONDS)


def first_due(requests: Iterable[Request], claimable: frozenset[str]) -> Request | None:
    """Return the request for which a turn is to end: the oldest that is due and has something to claim."""
    due = (request for request in requests if request.due and request.name in claimable)
    return max(due, key=lambda request: request.waited_seconds, default=None)


def asking(name: str) -> tuple[LiteralString, dict[str, object]]:
    """Return the statement, and its arguments, that writes down that a workflow asks for a worker.

    Not executed here, for who asks waits in an event loop. Nothing is written for a workflow that is not registered.
    """
    return _QUERIES["ask"], {"name": name, "remembered": LONGEST_GIVEN_AGAIN_SECONDS}


def was_given_up(connection: Connection, workflow: Workflow, turn: str) -> bool:
    """Return whether one of the tasks that share this turn has given it up."""
    row = connection.execute(_QUERIES["was_given_up"], {"workflow_id": workflow.id, "turn": turn}).fetchone()
    return bool(row and row[0])


def give_up(connection: Connection, workflow: Workflow, turn: str) -> str | None:
    """Give a workflow's turn up if another one asks for a worker, in the caller's transaction.

    Returns the name of the workflow for which the turn ends, None if it goes on. No second turn ends for the same
    request before `GIVEN_AGAIN_SECONDS`.

    Args:
        connection: in a transaction.
        workflow: whose turn it is.
        turn: what the tasks that share it call it.
    """
    asked = {"workflow_id": workflow.id, "grace_seconds": GRACE_SECONDS}
    requests = [Request(*row) for row in connection.execute(_QUERIES["requests"], asked)]
    names = [request.name for request in requests if request.due]
    if not names:
        return None
    rows = connection.execute(_CLAIMABLE, {"names": names, "grace_seconds": GRACE_SECONDS})
    given_to = first_due(requests, frozenset(name for (name,) in rows))
    if given_to is None:
        return None
    connection.execute(_QUERIES["give"], {"to": given_to.workflow_id})
    connection.execute(_QUERIES["give_up"], {"workflow_id": workflow.id, "turn": turn})
    return given_to.name


def had(connection: Connection, workflow: Workflow) -> None:
    """Write down that a workflow has its turn, and asks no more."""
    connection.execute(_QUERIES["had"], {"workflow_id": workflow.id})
