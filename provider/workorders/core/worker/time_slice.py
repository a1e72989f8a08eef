"""The turn of a task: it goes on as long as something waits, or until another workflow waits for its worker."""

import time
from collections.abc import Callable
from typing import Final

from workorders.core.postgres.connection import Connection
from workorders.core.runs import fair_share
from workorders.core.worker.result_store import Store
from workorders.core.workflows import Workflow

LOOK_SECONDS: Final = 2.0
"""Time between two looks for workflows that wait."""
TURN_SECONDS: Final = 30.0
"""Shortest turn, unless the workflow says otherwise."""


class Turn:
    """A task's share of its workflow's turn.

    Args:
        store: asks the database.
        workflow: whose turn it is.
        name: what all tasks that share the turn call it: when one of them gives it up, all end.
        seconds: from the first look on, the turn is not given up before: every turn gets some work done.
        say: is told why it ended.
    """

    def __init__(
        self, store: Store, workflow: Workflow, *, name: str, seconds: float, say: Callable[[str], None]
    ) -> None:
        self._store = store
        self._workflow = workflow
        self._name = name
        self._say = say
        self._seconds = seconds
        self._begun_at: float | None = None
        self._look_at = 0.0
        self._over = False
        self._asks = True

    def is_over(self) -> bool:
        """Look now and then, and return whether to claim no more.

        Raises:
            psycopg.Error: the database failed, or was away for too long.
        """
        now = time.monotonic()
        if self._over or now < self._look_at:
            return self._over
        self._look_at = now + LOOK_SECONDS
        if self._begun_at is None:
            self._begun_at = now
        may_give_up = now - self._begun_at >= self._seconds
        reason = self._store.ask(lambda connection: self._reason(connection, may_give_up))
        if reason is not None:
            self._over = True
            self._say(f"Workflow {self._workflow.name} ends its turn, for {reason}; what waits is for its next one.")
        return self._over

    def has_work(self) -> None:
        """Say that the workflow has its turn: it asks no more as soon as one of its tasks has claimed something."""
        if self._asks:
            self._store.ask(lambda connection: fair_share.had(connection, self._workflow))
            self._asks = False

    def _reason(self, connection: Connection, may_give_up: bool) -> str | None:
        if fair_share.was_given_up(connection, self._workflow, self._name):
            return "another group of it has given the turn up"
        if not may_give_up:
            return None
        other = fair_share.give_up(connection, self._workflow, self._name)
        return other and f"workflow {other} waits for a worker"
