"""Threads for the pages alone: Airflow's API shares the others, which must stay free while a database hangs.

Downloads have threads of their own, so that the pages answer while they are read.
"""

from collections.abc import Callable
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, Final

import anyio.to_thread
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from fastapi.routing import APIRoute

THREADS: Final = 8
"""Requests that are answered at the same time."""
DOWNLOADS: Final = 4
"""Exports that are downloaded at the same time."""


class Threads:
    """A number of threads."""

    def __init__(self, what: str, number: int) -> None:
        # A limiter belongs to an event loop.
        self._limiter: RunVar[CapacityLimiter] = RunVar(f"threads of {what}")
        self._number = number

    async def run(self, function: Callable[..., Any], *given: Any) -> Any:
        """Call a function that may block, as soon as a thread is free."""
        try:
            limiter = self._limiter.get()
        except LookupError:
            limiter = CapacityLimiter(self._number)
            self._limiter.set(limiter)
        return await anyio.to_thread.run_sync(function, *given, limiter=limiter)


OF_PAGES: Final = Threads("the pages", THREADS)
OF_DOWNLOADS: Final = Threads("downloads", DOWNLOADS)


class PageRoute(APIRoute):
    """A route whose function may block: it runs in a thread of the pages."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **settings: Any) -> None:
        super().__init__(path, endpoint if iscoroutinefunction(endpoint) else _in_thread(endpoint), **settings)


def _in_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def run(*given: Any, **named: Any) -> Any:
        return await OF_PAGES.run(partial(function, *given, **named))

    return run
