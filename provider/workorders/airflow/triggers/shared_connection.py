"""A few Postgres connections per database for all deferred tasks of a triggerer.

A hundred waiting tasks live in one event loop. With connections of their own they would hold a hundred; shared, they
cost next to nothing. They share more than one, so that a statement that takes long holds up no other task.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any, Final

import psycopg

from workorders.core.postgres.connection import NO_PREPARED_STATEMENTS, connection_string

MAX_CONNECTIONS: Final = 4
"""Connections of a triggerer to one database, however many tasks wait."""
# A look takes milliseconds. What takes longer must give its connection back soon: a lock that is not granted is asked
# for again after a while, and a look that takes this long fails its task, which is visible and is retried.
_SESSION: Final = {"statement_timeout": "30s", "lock_timeout": "5s"}

_Connection = psycopg.AsyncConnection[tuple[Any, ...]]

_databases: dict[str, "SharedDatabase"] = {}


def shared_database(database_url: str) -> "SharedDatabase":
    """Return what the process shares of a database."""
    key = key_of(database_url)
    if key not in _databases:
        _databases[key] = SharedDatabase(database_url)
    return _databases[key]


def key_of(secret: str) -> str:
    """Return what stands for a text with secrets where things are kept by it."""
    return hashlib.sha256(secret.encode()).hexdigest()


class SharedDatabase:
    """A few connections that many coroutines use by turns, opened when needed and again after a failure."""

    def __init__(self, database_url: str) -> None:
        self._url = connection_string(database_url, "workorders triggerer", _SESSION)
        self._turns = asyncio.Semaphore(MAX_CONNECTIONS)
        self._idle: list[_Connection] = []

    async def fetch(self, query: Any, arguments: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Run one query and return its rows.

        Raises:
            psycopg.Error: the database failed; the next call connects anew.
        """
        async with self._turns:
            connection = self._idle.pop() if self._idle else await self._connect()
            try:
                cursor = await connection.execute(query, arguments)
                rows = await cursor.fetchall()
            except BaseException:
                # The idle ones may lead to the same server that is down, or only reads after a fail-over.
                await connection.close()
                await self.close_idle()
                raise
            self._idle.append(connection)
            return rows

    async def close_idle(self) -> None:
        """Close the connections that no coroutine uses now."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    async def _connect(self) -> _Connection:
        return await psycopg.AsyncConnection.connect(
            self._url, autocommit=True, prepare_threshold=NO_PREPARED_STATEMENTS
        )
