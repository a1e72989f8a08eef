"""Callers that wait for the end of their work orders: all of them ask the database together."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from uuid import UUID

_LOG = logging.getLogger(__name__)

POLL_SECONDS = 0.2
_AFTER_FAILURE_SECONDS = 2.0


class Waiting:
    """Waits for work orders of one database, with one question for all of them a time and no transaction held.

    Asked instead of told: a listening connection would have to stand for every API server and database, also behind
    poolers that know no sessions.

    Args:
        ask: returns those that came to an end, and may fail.
    """

    def __init__(self, ask: Callable[[Collection[UUID]], Awaitable[Collection[UUID]]]) -> None:
        self._ask = ask
        self._waiting: dict[UUID, set[asyncio.Future[None]]] = {}
        self._task: asyncio.Task[None] | None = None

    async def ended(self, id_: UUID, seconds: float) -> bool:
        """Wait for the end of a work order; return False if it did not end within that time."""
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
                for id_ in await self._ask(tuple(self._waiting)):
                    for future in self._waiting.pop(id_, ()):
                        if not future.done():
                            future.set_result(None)
            except Exception as error:  # noqa: BLE001 - the callers' time limit ends the wait, whatever fails here
                _LOG.warning("The database did not say which work orders are finished: %s", type(error).__name__)
                await asyncio.sleep(_AFTER_FAILURE_SECONDS)
            await asyncio.sleep(POLL_SECONDS)
