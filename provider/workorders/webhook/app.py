"""The FastAPI application that takes requests for webhooks; Airflow's API server mounts it at `/workorders/hooks`."""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import orjson
from fastapi import FastAPI, Request, Response
from starlette.requests import ClientDisconnect

from workorders.core.creation.create_one import Single
from workorders.core.history.outcomes import WorkOrderOutcome
from workorders.webhook.authentication import Secret
from workorders.webhook.callers import Callers, signature_fault, site
from workorders.webhook.creating import Creator
from workorders.webhook.hooks import Hook, Hooks
from workorders.webhook.receiving import Arriving, too_large
from workorders.webhook.refusals import RefusalLog, RefusedError, printable
from workorders.webhook.requests import Received
from workorders.webhook.secrets import Secrets
from workorders.webhook.threads import Threads
from workorders.webhook.waiting import Waiting

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_SUCCESS: Final = "success"
_REJECTED: Final = "rejected"
_MAX_LENGTH_DIGITS: Final = 18
"""Digits of a declared length that are read as a number; more would be more than any body has."""


class Webhooks:
    """Answers requests.

    Args:
        hooks: the webhooks by path.
        creator: makes work orders.
        secret: returns what an Airflow connection holds, or raises.
        clock: seconds of a clock that never goes back.
    """

    def __init__(
        self, hooks: Hooks, creator: Creator, secret: Callable[[str], Secret], clock: Callable[[], float]
    ) -> None:
        self._hooks = hooks
        self._creator = creator
        self._threads = Threads()
        self._callers = Callers(
            Secrets(lambda id_: self._threads.run_alone(f"connection {id_}", lambda: secret(id_)), clock), clock
        )
        self._refusals = RefusalLog(clock)
        self._waiting: dict[str, Waiting] = {}

    async def answer(self, request: Request) -> Response:
        """Answer one request; every refusal says why, in JSON."""
        hook: Hook | None = None
        try:
            if self._hooks.is_due():
                await self._threads.run_alone("trigger files", self._hooks.look)
            hook = self._hooks.at(request.path_params["path"].strip("/"))
            return await self._answer(hook, request)
        except RefusedError as refusal:
            name = hook.definition.name if hook else None
            self._refusals.add(name, request.url.path, site(_peer(request)), refusal)
            return _json(refusal.status, {"error": refusal.code, "reason": refusal.reason}, refusal.headers)

    async def _answer(self, hook: Hook, request: Request) -> Response:
        definition = hook.definition
        received = Received(request.url.path, request.headers.items(), _peer(request), b"", datetime.now(UTC))
        try:
            _check_form(hook, request, received)
            await self._callers.check_headers(definition, received)
        except RefusedError as refusal:
            # The body was not read, and nobody waits for the rest of it.
            refusal.headers["Connection"] = "close"
            raise
        with hook.room.arriving(
            site(received.remote_address), self._hooks.share(hook), gives_way=not definition.knows_callers_by_headers
        ) as arriving:
            single = await self._create(hook, replace(received, body=await _read(hook, request, arriving)), arriving)
        wanted = single.original or single.id
        if definition.reply == "after_completion" and wanted is not None:
            return await self._after_completion(hook, single, wanted)
        if single.original is not None:
            return _json(200, {"state": "duplicate", "duplicate": single.id}, id_=single.original)
        return _json(201 if single.created else 200, _became(single), id_=single.id)

    async def _create(self, hook: Hook, received: Received, arriving: Arriving) -> Single:
        definition = hook.definition
        with hook.room.worked_on(arriving):
            secret = await self._callers.secret(definition)
            if secret is not None:
                fault = await self._threads.run(
                    definition.name, lambda: signature_fault(definition, received, secret), is_known=False
                )
                self._callers.judge_signature(definition, received, fault)
            return await self._threads.run(
                definition.name, lambda: self._creator.create(hook, received), is_known=not definition.is_public
            )

    async def _after_completion(self, hook: Hook, single: Single, id_: UUID) -> Response:
        definition = hook.definition
        database = definition.database_connection
        if database not in self._waiting:
            self._waiting[database] = Waiting(lambda ids: self._ended(database, ids))
        with hook.room.waiting() as may_wait:
            if not may_wait:
                reason = "Too many callers wait for results of this webhook; the work order is there and continues."
                return _json(202, {"state": single.state, "reason": reason}, id_=id_)
            outcome = None
            if await self._waiting[database].ended(id_, definition.reply_timeout):
                outcome = await self._threads.run(
                    definition.name,
                    lambda: self._creator.outcome(database, id_),
                    is_known=not definition.is_public,
                )
        if outcome is None:
            reason = f"It was not finished within {definition.reply_timeout:g} s, and continues."
            return _json(202, {"state": single.state, "reason": reason}, id_=id_)
        code = definition.success_code if outcome.state == _SUCCESS else definition.failure_code
        return _json(code, _told(outcome, tells_errors=definition.tells_errors), id_=id_)

    async def _ended(self, database: str, ids: Collection[UUID]) -> Collection[UUID]:
        return await self._threads.run_alone(f"database {database}", lambda: self._creator.ended(database, ids))


def make_app(hooks: Hooks, creator: Creator, secret: Callable[[str], Secret], clock: Callable[[], float]) -> FastAPI:
    """Return the application. It has no pages about itself: they would be open to everybody."""
    app = FastAPI(title="Webhooks", docs_url=None, redoc_url=None, openapi_url=None)
    answer = Webhooks(hooks, creator, secret, clock).answer
    app.add_api_route("/{path:path}", answer, methods=list(_METHODS), response_model=None)
    return app


def _peer(request: Request) -> str | None:
    return request.client.host if request.client else None


def _check_form(hook: Hook, request: Request, received: Received) -> None:
    definition = hook.definition
    if request.method != "POST":
        raise RefusedError(405, "method-not-allowed", "A webhook takes POST and nothing else.", {"Allow": "POST"})
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise RefusedError(
            415,
            "encoded-body",
            f"The body is encoded as {printable(encoding)}; nothing was created; send it as it is.",
        )
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if definition.requires_json_type and media_type != "application/json":
        raise RefusedError(
            415,
            "not-json-type",
            "The body has another type than application/json; nothing was created. A browser that knows the password "
            "sends every other type for any page that asks it to; send the header Content-Type: application/json.",
        )
    if definition.reply == "after_completion" and received.key is not None and not definition.proves_key():
        raise RefusedError(
            400,
            "unproved-key",
            "Nothing was created: this webhook answers with results, and nothing shows that the Idempotency-Key is "
            "the caller's own. Send the request without it.",
        )
    declared = request.headers.get("content-length", "")
    # The superscript two is a digit, and no number; nor does Python read thousands of digits.
    if declared.isascii() and declared.isdigit():
        length = declared.lstrip("0")
        if len(length) > _MAX_LENGTH_DIGITS or int(length or "0") > definition.max_body_bytes:
            raise too_large(definition.max_body_bytes)


async def _read(hook: Hook, request: Request, arriving: Arriving) -> bytes:
    try:
        return await arriving.read(request.stream(), hook.definition.max_body_bytes)
    except ClientDisconnect as error:
        raise RefusedError(400, "disconnected", "The caller closed the connection; nothing was created.") from error
    except RefusedError as refusal:
        refusal.headers["Connection"] = "close"
        raise


def _became(single: Single) -> dict[str, Any]:
    became: dict[str, Any] = {"state": single.state}
    if single.reason is not None:
        became |= {"error": single.reason, "reason": single.detail}
    return became


def _told(outcome: WorkOrderOutcome, *, tells_errors: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"state": outcome.state}
    # What a rule says of a rejection is this package's own words; an exception says whatever the workflow's author,
    # a library or the input put into it.
    if (outcome.error is not None or outcome.error_type is not None) and (tells_errors or outcome.state == _REJECTED):
        told |= {"error": outcome.error_type, "reason": outcome.error}
    if outcome.output is not None:
        # As text, because a number of Postgres may have more digits than one of Python.
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
