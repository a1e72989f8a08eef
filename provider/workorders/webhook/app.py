"""The FastAPI application that takes requests for webhooks; Airflow's API server mounts it at `/workorders/hooks`."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

import anyio
import orjson
from fastapi import FastAPI, Request, Response

from workorders.core.outcomes import Outcome
from workorders.core.single import Single
from workorders.webhook.creating import Creator
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.exceptions import RefusedError, TryAgainError
from workorders.webhook.hooks import Hooks
from workorders.webhook.requests import Received
from workorders.webhook.waiting import Waiting

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

THREADS = 8
"""Requests that are worked on at once, and connections that are kept. Threads of our own: while the database hangs, the
ones that Airflow's pages and its API share must stay free."""
MOST_AT_ONCE = 256
"""Requests that may come in, wait for a thread or have one; more are told to come again, so that memory is bounded."""
_BODY_SECONDS = 30.0
_RETRY_SECONDS = 1
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_SUCCESS = "success"


class Webhooks:
    """Answers requests.

    Args:
        hooks: the webhooks by path.
        creator: checks callers and makes work orders.
    """

    def __init__(self, hooks: Hooks, creator: Creator) -> None:
        self._hooks = hooks
        self._creator = creator
        self._at_once = 0
        self._limiter: anyio.CapacityLimiter | None = None
        self._waiting: dict[str, Waiting] = {}

    async def answer(self, request: Request) -> Response:
        """Answer one request; every refusal says why, in JSON."""
        try:
            return await self._answer(request)
        except RefusedError as refusal:
            client = request.client.host if request.client else "somebody"
            _LOG.warning("%s of %s was refused with %d: %s", request.url.path, client, refusal.status, refusal.reason)
            return _json(refusal.status, {"error": refusal.code, "reason": refusal.reason}, refusal.headers)

    async def _answer(self, request: Request) -> Response:
        hook = self._hooks.at(request.path_params["path"].strip("/"))
        definition = hook.definition
        _check_form(request)
        with self._room():
            received = await _receive(request, definition.max_body_bytes)
            single = await self._in_thread(lambda: self._creator.create(hook, received))
        wanted = single.original or single.id
        if definition.reply == "after_completion" and wanted is not None:
            return await self._after_completion(definition, single, wanted)
        if single.original is not None:
            return _json(200, {"state": "duplicate", "duplicate": single.id}, id_=single.original)
        return _json(201 if single.created else 200, _became(single), id_=single.id)

    @contextmanager
    def _room(self) -> Iterator[None]:
        if self._at_once >= MOST_AT_ONCE:
            raise TryAgainError(
                "busy", "Nothing was created: too many requests are being worked on.", seconds=_RETRY_SECONDS
            )
        self._at_once += 1
        try:
            yield
        finally:
            self._at_once -= 1

    async def _after_completion(self, definition: WebhookTriggerDefinition, single: Single, id_: UUID) -> Response:
        waiting = self._waiting.get(definition.database_connection)
        if waiting is None:
            waiting = self._waiting[definition.database_connection] = Waiting(
                lambda ids: self._finished(definition.database_connection, ids)
            )
        outcome = await waiting.outcome(id_, definition.reply_timeout)
        if outcome is None:
            reason = f"It was not finished within {definition.reply_timeout:g} s, and goes on."
            return _json(202, {"state": single.state, "reason": reason}, id_=id_)
        code = definition.success_code if outcome.state == _SUCCESS else definition.failure_code
        return _json(code, _told(outcome), id_=id_)

    async def _finished(self, database_connection: str, ids: Collection[UUID]) -> list[Outcome]:
        return await self._in_thread(lambda: self._creator.finished(database_connection, ids))

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        if self._limiter is None:  # needs the running loop
            self._limiter = anyio.CapacityLimiter(THREADS)
        return await anyio.to_thread.run_sync(work, limiter=self._limiter)


def make_app(hooks: Hooks, creator: Creator) -> FastAPI:
    """Return the application. It has no pages about itself: they would be open to everybody."""
    app = FastAPI(title="Webhooks", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_api_route("/{path:path}", Webhooks(hooks, creator).answer, methods=list(_METHODS), response_model=None)
    return app


def _check_form(request: Request) -> None:
    if request.method != "POST":
        raise RefusedError(405, "method-not-allowed", "A webhook takes POST and nothing else.", {"Allow": "POST"})
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise RefusedError(
            415, "encoded-body", f"The body is encoded as {encoding}; nothing was created; send it as it is."
        )


async def _receive(request: Request, max_bytes: int) -> Received:
    return Received(
        path=request.url.path,
        headers=request.headers.items(),
        remote_address=request.client.host if request.client else None,
        body=await _body(request, max_bytes),
        at=datetime.now(UTC),
    )


async def _body(request: Request, max_bytes: int) -> bytes:
    too_large = RefusedError(
        413, "too-large", f"The body has more than the {max_bytes} bytes that this webhook takes; nothing was created."
    )
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max_bytes:
        raise too_large
    parts = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                parts += part
                if len(parts) > max_bytes:
                    raise too_large
    except TimeoutError as error:
        raise RefusedError(
            408, "too-slow", f"The body did not come within {_BODY_SECONDS:g} s; nothing was created."
        ) from error
    return bytes(parts)


def _became(single: Single) -> dict[str, Any]:
    became: dict[str, Any] = {"state": single.state}
    if single.reason is not None:
        became |= {"error": single.reason, "reason": single.detail}
    return became


def _told(outcome: Outcome) -> dict[str, Any]:
    told: dict[str, Any] = {"state": outcome.state}
    if outcome.error is not None or outcome.error_type is not None:
        told |= {"error": outcome.error_type, "reason": outcome.error}
    if outcome.output is not None:
        # As text, for a number of Postgres may have more digits than one of Python.
        told["output"] = orjson.Fragment(outcome.output)
    return told


def _json(
    status: int, content: dict[str, Any], headers: dict[str, str] | None = None, *, id_: UUID | None = None
) -> Response:
    added = dict(headers or {})
    if id_ is not None:
        added["X-Work-Order-Id"] = str(id_)
    if status < 300 or id_ is not None:  # noqa: PLR2004 - a refusal has no work order
        content = {"work_order_id": id_, **content}
    return Response(orjson.dumps(content), status, added, media_type="application/json")
