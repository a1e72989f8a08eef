"""Waits for the ends of work orders on behalf of callers, with one query for all callers of a webhook."""

import asyncio
import logging
from collections.abc import Callable, Collection
from uuid import UUID

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

_LOG = logging.getLogger(__name__)

POLL_SECONDS = 0.2
MAX_WAITING = 256
"""Work orders that the callers of one webhook wait for at the same time."""
_AFTER_FAILURE_SECONDS = 2.0


class CompletionPoller:
    """Polls the database for the work orders that callers of one webhook wait for, without holding a transaction.

    It polls because LISTEN would need an open connection per API server and database, and does not work behind poolers
    that do not keep sessions. `find_ended` may block, and may fail.
    """

    def __init__(self, find_ended: Callable[[Collection[UUID]], Collection[UUID]]) -> None:
        self._find_ended = find_ended
        self._threads = CapacityLimiter(1)
        self._waiting: dict[UUID, set[asyncio.Future[None]]] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        """Return whether callers wait for as many work orders as the webhook may keep them waiting for."""
        return len(self._waiting) >= MAX_WAITING

    async def wait_for(self, id_: UUID, seconds: float) -> bool:
        """Wait until a work order has ended; return False if it has not within that time."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(id_, set()).add(future)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll())
        try:
            await asyncio.wait_for(future, seconds)
        except TimeoutError:
            return False
        else:
            return True
        finally:
            left = self._waiting.get(id_, set())
            left.discard(future)
            if not left:
                self._waiting.pop(id_, None)

    async def _poll(self) -> None:
        while self._waiting:
            try:
                for id_ in await run_sync(self._find_ended, tuple(self._waiting), limiter=self._threads):
                    for future in self._waiting.pop(id_, ()):
                        if not future.done():
                            future.set_result(None)
            except Exception as error:  # noqa: BLE001 - the callers' time limit ends the wait after any failure
                _LOG.warning("The work orders that have ended cannot be read: %s", type(error).__name__)
                await asyncio.sleep(_AFTER_FAILURE_SECONDS)
            await asyncio.sleep(POLL_SECONDS)
