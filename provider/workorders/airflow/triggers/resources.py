"""What the deferred tasks of a triggerer share: a few Postgres connections per database, one client per Kafka cluster.

A hundred waiting tasks live in one event loop. With their own connections they would hold a hundred; shared, they
cost next to nothing.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import psycopg

from workorders.core.postgres.connection import Connection, connect

MAX_CONNECTIONS: Final = 4
"""Connections of a triggerer to one database, however many tasks wait: a slow statement holds up no other task."""
# A probe takes milliseconds. A slower one must return its connection soon: a lock that is not granted is requested
# again later, and a probe that takes this long fails its task, which is visible and is retried.
_SESSION: Final = {"statement_timeout": "30s", "lock_timeout": "5s"}
_MAX_ANSWER_SECONDS: Final = 60.0
"""Twice as long as a statement may take: behind a proxy that hangs, no answer would ever arrive."""

P = ParamSpec("P")
T = TypeVar("T")
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
    """A few connections that many coroutines share, opened when needed and again after a failure.

    Each is used in a thread, so that triggers and tasks call the same functions. The threads are not those of the event
    loop, which other triggers need: a database may hang.
    """

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._threads = ThreadPoolExecutor(MAX_CONNECTIONS, "workorders triggerer")
        self._idle: deque[Connection] = deque()
        self._is_closed = False

    async def run(self, ask: Callable[Concatenate[Connection, P], T], *arguments: P.args, **named: P.kwargs) -> T:
        """Call a function with a connection in autocommit mode; after a failure, the next call connects again."""
        call = partial(self._run, lambda connection: ask(connection, *arguments, **named))
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _run(self, ask: Callable[[Connection], T]) -> T:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            return ask(connection)
        except psycopg.Error:
            # It may lead to a server that is down, or that only reads after a fail-over.
            connection.close()
            raise
        finally:
            if not connection.closed:
                self._idle.append(connection)
            if self._is_closed:
                self._close_idle()

    def _connect(self) -> Connection:
        return connect(
            self._url,
            application_name="workorders triggerer",
            autocommit=True,
            session=_SESSION,
            may_wait=lambda waited: waited < _MAX_ANSWER_SECONDS and not self._is_closed,
        )

    async def close(self) -> None:
        """Close all connections; one that is in use is closed soon."""
        self._is_closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._close_idle()

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()
