"""Threads for the pages alone: Airflow's API shares the others, which must stay free while a database hangs.

Downloads have their own threads, so that the pages answer while they are read.
"""

from collections.abc import Callable
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, Final

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi.routing import APIRoute

OF_PAGES: Final = CapacityLimiter(8)
"""For requests that are answered at the same time."""
OF_DOWNLOADS: Final = CapacityLimiter(4)
"""For exports that are downloaded at the same time."""


class PageRoute(APIRoute):
    """A route whose function may block: it runs in a thread of the pages."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **settings: Any) -> None:
        super().__init__(path, endpoint if iscoroutinefunction(endpoint) else _in_thread(endpoint), **settings)


def _in_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def run(*given: Any, **named: Any) -> Any:
        return await run_sync(partial(function, *given, **named), limiter=OF_PAGES)

    return run
