"""What the deferred tasks of a triggerer share: a few Postgres connections per database, one client per Kafka cluster.

A hundred waiting tasks live in one event loop. With their own connections they would hold a hundred; shared, they
cost next to nothing.
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from psycopg_pool import AsyncConnectionPool, PoolTimeout

from workorders.core.postgres.client_connection import AsyncClientConnection
from workorders.core.postgres.connection import NO_PREPARED_STATEMENTS, connection_string

MAX_CONNECTIONS: Final = 4
"""Connections of a triggerer to one database, however many tasks wait: a slow statement holds up no other task."""
# A probe takes milliseconds. A slower one must return its connection soon: a lock that is not granted is requested
# again later, and a probe that takes this long fails its task, which is visible and is retried.
_SESSION: Final = {"statement_timeout": "30s", "lock_timeout": "5s"}
_CONNECT_SECONDS: Final = 5.0

# It logs each connection that is requested and given, which is every probe.
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)

R = TypeVar("R")
"""Something with an asynchronous `close`."""


@dataclass
class _Shared:
    resource: Any
    users: int = 0


class TriggererResources:
    """Shares a resource among all tasks that use it at the same time, and closes it after its last use.

    So it contains only what the waiting tasks were given, and no password that was changed since.
    """

    def __init__(self) -> None:
        self._shared: dict[tuple[Callable[[str], Any], str], _Shared] = {}

    def __len__(self) -> int:
        """Return how many resources are in use."""
        return len(self._shared)

    @asynccontextmanager
    async def use(self, make: Callable[[str], R], settings: str) -> AsyncIterator[R]:
        """Share what `make` returns for these settings with all users of the same settings."""
        key = (make, settings)
        shared = self._shared.get(key) or self._shared.setdefault(key, _Shared(make(settings)))
        shared.users += 1
        try:
            yield shared.resource
        finally:
            shared.users -= 1
            if not shared.users:
                del self._shared[key]
                await shared.resource.close()


resources: Final = TriggererResources()
"""Those of this process: Airflow makes each trigger on its own."""


class TriggererDatabase:
    """A few connections that many coroutines share, opened when needed and again after a failure."""

    def __init__(self, database_url: str) -> None:
        self._url = connection_string(database_url, "workorders triggerer", _SESSION)
        self._pool: AsyncConnectionPool[AsyncClientConnection] = AsyncConnectionPool(
            self._url,
            connection_class=AsyncClientConnection,
            kwargs={"autocommit": True, "prepare_threshold": NO_PREPARED_STATEMENTS},
            min_size=0,
            max_size=MAX_CONNECTIONS,
            timeout=_CONNECT_SECONDS,
            # Its own back-off would outlast the outage; each probe connects again.
            reconnect_timeout=0,
            open=False,
        )

    async def fetch(self, query: Any, arguments: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Run one query and return its rows; after a failure, the next call connects again."""
        await self._pool.open()
        try:
            async with self._pool.connection() as connection:
                try:
                    cursor = await connection.execute(query, arguments)
                    return await cursor.fetchall()
                except BaseException:
                    # It may lead to a server that is down, or that only reads after a fail-over.
                    await connection.close()
                    raise
        except PoolTimeout:
            # The pool does not report why it cannot connect, and a wrong password is no outage.
            async with await AsyncClientConnection.connect(self._url):
                raise

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()
