"""Threads for the pages alone: Airflow's API shares the others, which must stay free while a database hangs."""

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

_LIMITER: Final[RunVar[CapacityLimiter]] = RunVar("threads of the pages")
"""Of the running event loop, to which a limiter belongs."""


class PageRoute(APIRoute):
    """A route whose function may block: it runs in a thread of the pages."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **settings: Any) -> None:
        super().__init__(path, endpoint if iscoroutinefunction(endpoint) else _in_thread(endpoint), **settings)


def _in_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def run(*given: Any, **named: Any) -> Any:
        return await anyio.to_thread.run_sync(partial(function, *given, **named), limiter=_limiter())

    return run


def _limiter() -> CapacityLimiter:
    try:
        return _LIMITER.get()
    except LookupError:
        _LIMITER.set(CapacityLimiter(THREADS))
        return _LIMITER.get()
