"""The FastAPI application that takes requests for webhooks; the API server mounts it at `/workorders/webhooks`."""

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain, repeat
from typing import Any, Final
from uuid import UUID

import orjson
from anyio.to_thread import run_sync
from fastapi import FastAPI, Request, Response

from workorders.core.creation.create_one import CreateResult
from workorders.core.history.runs import WorkOrderOutcome
from workorders.core.states import WorkOrderState
from workorders.webhook.authentication import Basic, Slack
from workorders.webhook.callers import Callers
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.handler import RequestHandler
from workorders.webhook.hooks import Hook, Hooks
from workorders.webhook.refusals import RefusedError, printable
from workorders.webhook.requests import Received, received_body, require_length

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_LOG = logging.getLogger(__name__)

MAX_WAITING: Final = 256
"""Callers of one webhook that wait for results at the same time."""
_POLL_SECONDS: Final = (0.1, 0.2, 0.4, 0.8, 1.5)
"""Between two looks at a work order; the last is repeated."""


@dataclass(frozen=True)
class Webhooks:
    """Answers requests."""

    hooks: Hooks
    handler: RequestHandler
    callers: Callers

    async def answer(self, request: Request) -> Response:
        """Answer one request; a refusal gives its reason in JSON."""
        try:
            return await self._answer(await self.hooks.find(request.path_params["path"].strip("/")), request)
        except RefusedError as refusal:
            _LOG.warning(
                "Webhook path %s: a request of %s was refused with %d (%s): %s",
                printable(request.url.path),
                printable(_peer(request) or "unknown"),
                refusal.status,
                refusal.code,
                printable(refusal.reason),
            )
            return _json(refusal.status, {"error": refusal.code, "reason": refusal.reason}, refusal.headers)

    async def _answer(self, hook: Hook, request: Request) -> Response:
        definition = hook.definition
        single = await self._create(hook, request)
        if isinstance(single, str):
            return Response(orjson.dumps({"challenge": single}), media_type="application/json")
        wanted = single.original or single.id
        is_own = single.original is None and single.created
        if definition.reply == "after_completion" and wanted is not None and (is_own or definition.repeats_outputs):
            return await self._after_completion(hook, single, wanted)
        if single.original is not None:
            return _json(200, {"state": "duplicate", "duplicate": single.id}, id_=single.original)
        state: dict[str, Any] = {"state": single.state}
        if single.reason is not None:
            state |= {"error": single.reason, "reason": single.detail}
        return _json(201 if single.created else 200, state, id_=single.id)

    async def _create(self, hook: Hook, request: Request) -> CreateResult | str:
        """Create the work order; a challenge of a sender that checks the URL is returned instead."""
        definition = hook.definition
        received = Received(request.url.path, request.headers.items(), _peer(request), b"", datetime.now(UTC))
        is_read = False
        try:
            _require_acceptable(definition, request)
            await self.callers.check_headers(definition, received)
            async with received_body(hook, request) as body:
                is_read = True
                received = replace(received, body=body)
                await self.callers.check_signature(definition, received, hook.threads)
                method = definition.authentication
                if isinstance(method, Slack) and (challenge := method.challenge(body)) is not None:
                    return challenge
                return await run_sync(self.handler.create, hook, received, limiter=hook.threads)
        except RefusedError as refusal:
            if not is_read:  # the rest of the body is not waited for
                refusal.headers["Connection"] = "close"
            raise

    async def _after_completion(self, hook: Hook, single: CreateResult, id_: UUID) -> Response:
        definition = hook.definition
        if hook.waiting >= MAX_WAITING:
            reason = "Too many callers wait for results of this webhook. The work order was created and continues."
            return _json(202, {"state": single.state, "reason": reason}, id_=id_)
        hook.waiting += 1
        try:
            async with asyncio.timeout(definition.reply_timeout):
                outcome = await self._outcome(hook, id_)
        except TimeoutError:
            reason = f"The work order was not finished within {definition.reply_timeout:g} s. It continues."
            return _json(202, {"state": single.state, "reason": reason}, id_=id_)
        finally:
            hook.waiting -= 1
        code = definition.success_code if outcome.state == WorkOrderState.SUCCESS else definition.failure_code
        return _json(code, _result_of(outcome, tells_errors=definition.tells_errors), id_=id_)

    async def _outcome(self, hook: Hook, id_: UUID) -> WorkOrderOutcome:
        """Look at the work order until it has ended, ever more rarely.

        LISTEN would need an open connection per server, and does not work behind poolers that do not keep sessions.
        """
        delays = chain(_POLL_SECONDS, repeat(_POLL_SECONDS[-1]))
        find = partial(self.handler.find_outcome, hook.definition.database_connection, id_)
        while (found := await run_sync(find, limiter=hook.threads, abandon_on_cancel=True)) is None:
            await asyncio.sleep(next(delays))
        return found


def make_app(webhooks: Webhooks) -> FastAPI:
    """Return the application. It has no documentation pages, because everybody could read them."""
    app = FastAPI(title="Webhooks", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_api_route("/{path:path}", webhooks.answer, methods=list(_METHODS), response_model=None)
    return app


def _peer(request: Request) -> str | None:
    return request.client.host if request.client else None


def _require_acceptable(definition: WebhookTriggerDefinition, request: Request) -> None:
    if request.method != "POST":
        raise RefusedError(405, "method-not-allowed", "A webhook takes POST and nothing else.", {"Allow": "POST"})
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise RefusedError(
            415,
            "encoded-body",
            f"The body is encoded as {printable(encoding)}; nothing was created; send it without an encoding.",
        )
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # For other types, a browser asks no server before it sends a password for a page that it shows.
    if isinstance(definition.authentication, Basic) and media_type != "application/json":
        raise RefusedError(
            415,
            "not-json-type",
            "The body does not have the type application/json; nothing was created. A browser that knows the password "
            "sends other types for any page that asks it to. Send the header Content-Type: application/json.",
        )
    require_length(request.headers.get("content-length", ""), definition.max_body_bytes)


def _result_of(outcome: WorkOrderOutcome, *, tells_errors: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"state": outcome.state}
    # The reason of a rejection is this package's text. The text of an exception may contain anything that the
    # workflow's author, a library, or the input put into it.
    is_told = tells_errors or outcome.state == WorkOrderState.REJECTED
    if is_told and (outcome.error is not None or outcome.error_type is not None):
        result |= {"error": outcome.error_type, "reason": outcome.error}
    if outcome.output is not None:
        # As text, because a number in Postgres may have more digits than a Python float keeps.
        result["output"] = orjson.Fragment(outcome.output)
    return result


def _json(
    status: int, content: dict[str, Any], headers: dict[str, str] | None = None, *, id_: UUID | None = None
) -> Response:
    added = dict(headers or {})
    if id_ is not None:
        added["X-Work-Order-Id"] = str(id_)
    if status < 300 or id_ is not None:  # noqa: PLR2004 - a refusal has no work order
        content = {"work_order_id": id_, **content}
    return Response(orjson.dumps(content), status, added, media_type="application/json")
