"""The Airflow trigger that waits for runs, without a worker; all of them in a triggerer share one look a second."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import psycopg
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TaskFailedEvent, TaskSkippedEvent, TaskSuccessEvent, TriggerEvent

from workorders.airflow.connections import async_database_url
from workorders.airflow.shared import key_of, shared_database
from workorders.core import workflows
from workorders.core.backoff import delay_seconds
from workorders.core.database import connect
from workorders.core.exceptions import ConfigurationError, one_line
from workorders.core.queries import load_queries
from workorders.core.runs import GRACE_SECONDS

_QUERIES = load_queries("workorders.core", "sql/waiting.sql")

LOOK_SECONDS: Final = 1.0
"""Time between two looks at the database, however many workflows wait."""


class SharedLook:
    """Asks one database for all workflows that wait in this process: one query, and not one each."""

    def __init__(self, database_url: str) -> None:
        self._database = shared_database(database_url)
        self._names: dict[str, int] = {}
        self._turn = asyncio.Lock()
        self._looked_at = 0.0
        self._claimable: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """The workflows that are asked for."""
        return frozenset(self._names)

    def join(self, name: str) -> None:
        """Ask for this workflow from now on."""
        self._names[name] = self._names.get(name, 0) + 1

    def leave(self, name: str) -> None:
        """Ask no more for it, unless somebody else waits for it, too."""
        self._names[name] -= 1
        if self._names[name] == 0:
            del self._names[name]

    async def claimable(self, name: str) -> bool:
        """Return whether the workflow has something to do, by a look that is younger than `LOOK_SECONDS`.

        Raises:
            psycopg.Error: the database failed.
        """
        async with self._turn:
            now = time.monotonic()
            if now - self._looked_at >= LOOK_SECONDS:
                rows = await self._database.fetch(
                    _QUERIES["claimable"], {"names": list(self._names), "grace_seconds": GRACE_SECONDS}
                )
                self._claimable = frozenset(row[0] for row in rows)
                self._looked_at = now
            return name in self._claimable


_looks: dict[str, SharedLook] = {}


def shared_look(database_url: str) -> SharedLook:
    """Return the process's look at a database."""
    return _looks.setdefault(key_of(database_url), SharedLook(database_url))


class WaitingRunsTrigger(BaseTrigger):
    """Fires when a workflow has a run that can be claimed, or a group of it has fallen silent.

    It only says "look": what is claimed is decided later, in the database. Two triggerers that run it at once do no
    harm.

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
        super().__init__()  # type: ignore[no-untyped-call]
        self.definition = definition
        self.database_connection = database_connection
        self.idle_after = idle_after

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class's path and its arguments."""
        return (
            f"{WaitingRunsTrigger.__module__}.{WaitingRunsTrigger.__qualname__}",
            {
                "definition": self.definition,
                "database_connection": self.database_connection,
                "idle_after": self.idle_after,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until there is something to do, and end the task right here, without starting a worker for it."""
        name = str(self.definition["name"])
        self.log.info("Waiting for runs of workflow %s.", name)
        deadline = time.monotonic() + self.idle_after
        failures = 0
        while time.monotonic() < deadline:
            try:
                found = await self._wait(name, deadline)
            except (ConfigurationError, AirflowNotFoundException) as error:
                self.log.error("Workflow %s: %s Nothing was claimed.", name, error)
                yield TaskFailedEvent()
                return
            except psycopg.Error as error:
                failures += 1
                delay = delay_seconds(failures)
                self.log.warning("%s Nothing was lost; looking again in %s s.", one_line(error), delay)
                await asyncio.sleep(delay)
                continue
            if found:
                self.log.info("There are runs to claim, or lost ones to recover.")
                yield TaskSuccessEvent()
                return
        self.log.info("Nothing came within %.0f s; this run ends without work.", self.idle_after)
        yield TaskSkippedEvent()

    async def _wait(self, name: str, deadline: float) -> bool:
        """Look until something is found, or the deadline; connections are looked up anew after each failure."""
        database_url = await async_database_url(self.database_connection)
        # In a thread, for it is a connection of its own; lanes and limits apply from here on, before any run began.
        await asyncio.to_thread(register, database_url, self.definition)
        look = shared_look(database_url)
        look.join(name)
        try:
            while time.monotonic() < deadline:
                if await look.claimable(name):
                    return True
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            look.leave(name)
        return False


def register(database_url: str, definition: dict[str, Any]) -> None:
    """Write a workflow's definition down, unless it stands there already.

    Raises:
        ConfigurationError: the definition has a wrong form.
        psycopg.Error: the database failed.
    """
    with connect(database_url, application_name="workorders register") as connection:
        workflows.register(connection, workflows.parse(definition, where=str(definition.get("name"))))
