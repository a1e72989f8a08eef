"""The Airflow trigger that waits for runs, without a worker; all of them in a triggerer share one look a second."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from workorders.airflow.connections import async_database_url
from workorders.airflow.triggers.polling import Look, WaitingTrigger
from workorders.airflow.triggers.resources import TriggererDatabase, resources
from workorders.core import workflows
from workorders.core.definitions.loading import parse_workflow
from workorders.core.postgres.connection import connect
from workorders.core.postgres.named_queries import load_queries
from workorders.core.runs.lifecycle import GRACE_SECONDS
from workorders.core.workflows import Workflow

_QUERIES = load_queries("workorders.core.runs", "sql/claimable.sql")

LOOK_SECONDS: Final = 1.0
"""Time between two looks at the database, however many workflows wait."""


class SharedLook:
    """Asks one database for all workflows that wait in this process: one query, and not one each."""

    def __init__(self, database_url: str) -> None:
        self._database = TriggererDatabase(database_url)
        self._names: Counter[str] = Counter()
        self._turn = asyncio.Lock()
        self._looked_at = 0.0
        self._claimable: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """The workflows that are asked for."""
        return frozenset(+self._names)

    @contextmanager
    def asking_for(self, name: str) -> Iterator[None]:
        """Ask for this workflow as well, as long as anybody waits for it."""
        self._names[name] += 1
        try:
            yield
        finally:
            self._names[name] -= 1

    async def claimable(self, name: str) -> bool:
        """Return whether the workflow has something to do, by a look that is younger than `LOOK_SECONDS`.

        Raises:
            psycopg.Error: the database failed.
        """
        async with self._turn:
            now = time.monotonic()
            if now - self._looked_at >= LOOK_SECONDS:
                rows = await self._database.fetch(
                    _QUERIES["claimable"], {"names": list(self.names), "grace_seconds": GRACE_SECONDS}
                )
                self._claimable = frozenset(row[0] for row in rows)
                self._looked_at = now
            return name in self._claimable

    async def close(self) -> None:
        """Close its connection."""
        await self._database.close()


class WaitingRunsTrigger(WaitingTrigger):
    """Fires when a workflow has a run that can be claimed, or lost ones to recover.

    Args:
        definition: the workflow's definition, as plain values. It is registered when the wait begins.
        database_connection: id of the Airflow Postgres connection.
        idle_after: seconds after which the wait ends without runs.
    """

    def __init__(
        self,
        *,
        definition: dict[str, Any],
        database_connection: str = "workorders_db",
        idle_after: float = 3600.0,
        **_from_another_version: Any,
    ) -> None:
        super().__init__(poll_interval=LOOK_SECONDS, idle_after=idle_after)
        self.definition = definition
        self.database_connection = database_connection

    def arguments(self) -> dict[str, Any]:
        """Return what this was made with."""
        return {
            "definition": self.definition,
            "database_connection": self.database_connection,
            "idle_after": self.idle_after,
        }

    @property
    def subject(self) -> str:
        """The workflow."""
        return f"Workflow {self.definition['name']}"

    @property
    def awaited(self) -> str:
        """Its runs."""
        return f"runs of workflow {self.definition['name']}"

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[Look]:
        """Register the workflow, and ask for it in the look that all in this process share."""
        database_url = await async_database_url(self.database_connection)
        # In a thread, because it blocks on a connection of its own. Ordering keys and limits apply from here on.
        await asyncio.to_thread(register, database_url, self.definition)
        name = str(self.definition["name"])
        async with resources.use(SharedLook, database_url) as shared:

            async def look() -> str | None:
                return "There are runs to claim, or lost ones to recover." if await shared.claimable(name) else None

            with shared.asking_for(name):
                yield look


def register(database_url: str, definition: dict[str, Any]) -> Workflow:
    """Write a workflow's definition down, unless it stands there already, and return the workflow.

    Raises:
        ConfigurationError: the definition has a wrong form.
        psycopg.Error: the database failed.
    """
    with connect(database_url, application_name="workorders register") as connection:
        return workflows.register(connection, parse_workflow(definition, where=str(definition.get("name"))))
