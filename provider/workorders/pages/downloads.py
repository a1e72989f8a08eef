"""Sends exports to browsers: a few at a time, in their own threads, and in parts that a browser may take slowly.

A browser may not notice that a server stopped in the middle of a file, because a middleware of Airflow ends the answer
as usual. So such a file ends with a line that reports it.
"""

import logging
from collections.abc import AsyncIterator, Generator
from contextlib import closing
from threading import BoundedSemaphore
from typing import Final

import anyio
import orjson
import psycopg
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import HTTPException
from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from workorders.core.exceptions import WorkOrdersError, one_line
from workorders.core.history import work_orders
from workorders.core.history.filters import Filter
from workorders.pages.site import Site

_LOG = logging.getLogger(__name__)

DOWNLOADS: Final = 4
"""At the same time; each has a thread."""
_FREE = BoundedSemaphore(DOWNLOADS)
MAX_SECONDS: Final = 120.0
"""For a browser to take a part; then another download may begin in its place."""


def begin(site: Site, wanted: Filter) -> "DownloadResponse":
    """Read the first part of an export, and return the answer that sends it and the others.

    Raises:
        HTTPException: this API server sends as many as it can.
        WorkOrdersError: the filter names nothing that exists.
        psycopg.Error: the database failed.
    """
    if not _FREE.acquire(blocking=False):
        raise HTTPException(
            503,
            f"Nothing was exported: this API server sends {DOWNLOADS} exports already. Wait until one of them has "
            f"ended, and export again then.",
        )
    parts = _parts(site, wanted)
    return DownloadResponse(next(parts, b""), parts)


def _parts(site: Site, wanted: Filter) -> Generator[bytes]:
    has_begun = False
    try:
        # Unlike the connections of pages, this one limits no statement to seconds.
        with site.writing() as connection:
            connection.read_only = True
            with closing(work_orders.export_parts(connection, wanted)) as parts:
                for part in parts:
                    yield part
                    has_begun = True
    except (WorkOrdersError, psycopg.Error, OSError) as error:
        if not has_begun:
            raise
        _LOG.error("An export was cut off: %s", one_line(error))
        error_line = {"error": f"This file was cut off: {one_line(error)}"}  # no reader takes it for a work order
        yield orjson.dumps(error_line, option=orjson.OPT_APPEND_NEWLINE)
    finally:
        _FREE.release()


class DownloadResponse(StreamingResponse):
    """A file that a browser stores and never shows, because strangers wrote what is in it."""

    def __init__(self, first: bytes, parts: Generator[bytes]) -> None:
        self._parts = parts
        self._thread = CapacityLimiter(1)
        headers = {
            "Content-Disposition": 'attachment; filename="work-orders.jsonl"',
            "Content-Security-Policy": "sandbox",
        }
        super().__init__(self._from(first), media_type="application/octet-stream", headers=headers)

    async def _from(self, first: bytes) -> AsyncIterator[bytes]:
        part = first
        while part:
            yield part
            part = await run_sync(next, self._parts, b"", limiter=self._thread)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the parts; whatever ends it, what they were read from is closed."""

        async def send_in_time(message: Message) -> None:
            with anyio.fail_after(MAX_SECONDS):
                await send(message)

        try:
            await super().__call__(scope, receive, send_in_time)
        except TimeoutError:
            _LOG.warning("A download was ended: the browser took nothing for %d seconds.", MAX_SECONDS)
        finally:
            with anyio.CancelScope(shield=True):
                await run_sync(self._parts.close, limiter=self._thread)
