"""One Postgres connection a database for all deferred tasks of a triggerer.

A hundred waiting tasks live in one event loop. With connections of their own they would hold a hundred; shared, they
cost next to nothing.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

import psycopg

from workorders.core.database import AWAY, PREPARE_NOTHING, connection_string

_databases: dict[str, "SharedDatabase"] = {}


def shared_database(database_url: str) -> "SharedDatabase":
    """Return the process's connection to a database."""
    key = key_of(database_url)
    if key not in _databases:
        _databases[key] = SharedDatabase(database_url)
    return _databases[key]


def key_of(secret: str) -> str:
    """Return what stands for a text with secrets where things are kept by it."""
    return hashlib.sha256(secret.encode()).hexdigest()


class SharedDatabase:
    """A connection that many coroutines use by turns, opened when first needed and again when it broke."""

    def __init__(self, database_url: str) -> None:
        self._url = connection_string(database_url, "workorders triggerer")
        self._turn = asyncio.Lock()
        self._connection: psycopg.AsyncConnection[tuple[Any, ...]] | None = None

    async def fetch(self, query: Any, arguments: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Run one query and return its rows.

        Raises:
            psycopg.Error: the database failed; the next call connects anew.
        """
        async with self._turn:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = await psycopg.AsyncConnection.connect(
                        self._url, autocommit=True, prepare_threshold=PREPARE_NOTHING
                    )
                cursor = await self._connection.execute(query, arguments)
                return await cursor.fetchall()
            except AWAY:
                await self._drop()
                raise

    async def _drop(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
