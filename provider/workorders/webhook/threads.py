"""Thread pools of the webhooks.

Airflow's pages and its API share the threads that are there by default; these must stay free while a database hangs.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import anyio

_T = TypeVar("_T")

THREADS: Final = 8
"""Requests of authenticated callers that are processed at the same time."""
THREADS_FOR_STRANGERS: Final = 4
"""The same for callers that are not authenticated: requests of public webhooks, and checks of signatures."""
_PARTS: Final = 2
"""One webhook gets at most half of a pool."""


class Threads:
    """Runs blocking functions. Used on one event loop."""

    def __init__(self) -> None:
        self._limiters: dict[tuple[str, str], anyio.CapacityLimiter] = {}

    async def run(self, webhook: str, work: Callable[[], _T], *, is_known: bool) -> _T:
        """Run a function for a webhook.

        Args:
            webhook: its name.
            work: what blocks.
            is_known: whether the caller has shown that it may call.
        """
        pool, size = ("callers", THREADS) if is_known else ("strangers", THREADS_FOR_STRANGERS)
        # The webhook's own limit first: a request that waits for it must not hold a thread of the pool.
        async with self._limiter(pool, f"webhook {webhook}", size // _PARTS):
            return await anyio.to_thread.run_sync(work, limiter=self._limiter(pool, "all", size))

    async def run_alone(self, subject: str, work: Callable[[], _T]) -> _T:
        """Run a function in a thread per subject; a second one for the same subject waits for the first.

        There are as many such threads as subjects, whose number the trigger files set.
        """
        return await anyio.to_thread.run_sync(work, limiter=self._limiter("alone", subject, 1))

    def _limiter(self, pool: str, name: str, size: int) -> anyio.CapacityLimiter:
        found = self._limiters.get((pool, name))
        if found is None:  # here, because a limiter needs the running loop
            found = self._limiters[pool, name] = anyio.CapacityLimiter(size)
        return found
