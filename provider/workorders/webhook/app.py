"""The FastAPI application that takes requests for webhooks; Airflow's API server mounts it at `/workorders/hooks`."""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import orjson
from fastapi import FastAPI, Request, Response
from starlette.requests import ClientDisconnect

from workorders.core.creation.create_one import CreateResult
from workorders.core.history.runs import WorkOrderOutcome
from workorders.webhook.callers import Callers, network_of
from workorders.webhook.capacity import IncomingBody, too_large
from workorders.webhook.completion import CompletionPoller
from workorders.webhook.handler import RequestHandler
from workorders.webhook.hooks import Hook, Hooks
from workorders.webhook.method import Secret
from workorders.webhook.refusals import RefusalLog, RefusedError, printable
from workorders.webhook.request_counts import Counts, RequestCounts
from workorders.webhook.requests import Received
from workorders.webhook.secrets import Secrets
from workorders.webhook.threads import Threads

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_SUCCESS: Final = "success"
_REJECTED: Final = "rejected"
_INTERNAL_ERROR: Final = 500
_MAX_LENGTH_DIGITS: Final = 18
"""Digits of a declared length that are parsed; no body is longer than such a number."""


class Webhooks:
    """Answers requests.

    Args:
        hooks: the webhooks by path.
        handler: creates work orders.
        secret: returns the secret of an Airflow connection, or raises.
        clock: returns the seconds of a monotonic clock.
    """

    def __init__(
        self, hooks: Hooks, handler: RequestHandler, secret: Callable[[str], Secret], clock: Callable[[], float]
    ) -> None:
        self._hooks = hooks
        self._handler = handler
        self._threads = Threads()
        secrets = Secrets(lambda id_: self._threads.run_alone(f"connection {id_}", lambda: secret(id_)), clock)
        self._callers = Callers(secrets, self._threads, clock)
        self._refusals = RefusalLog(clock)
        self._pollers: dict[str, CompletionPoller] = {}
        self._counts = RequestCounts(self._add_counts)

    async def answer(self, request: Request) -> Response:
        """Answer one request, and count the answer; a refusal gives its reason in JSON."""
        hook: Hook | None = None
        try:
            if self._hooks.is_reload_due():
                await self._threads.run_alone("trigger files", self._hooks.reload)
            hook = self._hooks.get(request.path_params["path"].strip("/"))
            answer = await self._answer(hook, request)
        except RefusedError as refusal:
            name = hook.definition.name if hook else None
            self._refusals.add(name, request.url.path, network_of(_peer(request)), refusal)
            answer = _json(refusal.status, {"error": refusal.code, "reason": refusal.reason}, refusal.headers)
        except Exception:
            # The server answers so, and logs the error.
            self._count(hook, _INTERNAL_ERROR)
            raise
        self._count(hook, answer.status_code)
        return answer

    def _count(self, hook: Hook | None, status: int) -> None:
        """Count an answer; a path without a webhook has no name to count under."""
        if hook is not None:
            self._counts.count(hook.definition.database_connection, hook.definition.name, status)

    async def _answer(self, hook: Hook, request: Request) -> Response:
        definition = hook.definition
        received = Received(
            request.url.path, request.headers.items(), _peer(request), b"", datetime.now(UTC), definition.key_header
        )
        try:
            _require_acceptable(hook, request, received)
            await self._callers.check_headers(definition, received)
        except RefusedError as refusal:
            # The body was not read, and its rest is not waited for.
            refusal.headers["Connection"] = "close"
            raise
        with hook.capacity.incoming(
            network_of(received.remote_address),
            self._hooks.max_bytes_of(hook),
            gives_way=not definition.knows_callers_by_headers,
        ) as incoming:
            received = replace(received, body=await _read(hook, request, incoming))
            single = await self._create(hook, received, incoming)
        if isinstance(single, str):
            return Response(orjson.dumps({"challenge": single}), media_type="application/json")
        wanted = single.original or single.id
        if definition.reply == "after_completion" and wanted is not None:
            return await self._after_completion(hook, single, wanted)
        if single.original is not None:
            return _json(200, {"state": "duplicate", "duplicate": single.id}, id_=single.original)
        return _json(201 if single.created else 200, _state_of(single), id_=single.id)

    async def _create(self, hook: Hook, received: Received, incoming: IncomingBody) -> CreateResult | str:
        """Create the work order; a challenge of a sender that checks the URL is returned instead."""
        definition = hook.definition
        with hook.capacity.processing(incoming):
            await self._callers.check_signature(definition, received)
            if definition.signature and (challenge := definition.signature.challenge(received.body)) is not None:
                return challenge
            return await self._threads.run(
                definition.name, lambda: self._handler.create(hook, received), is_known=not definition.is_public
            )

    async def _after_completion(self, hook: Hook, single: CreateResult, id_: UUID) -> Response:
        definition = hook.definition
        database = definition.database_connection
        if database not in self._pollers:
            self._pollers[database] = CompletionPoller(lambda ids: self._ended(database, ids))
        with hook.capacity.waiting() as may_wait:
            if not may_wait:
                reason = "Too many callers wait for results of this webhook. The work order was created and continues."
                return _json(202, {"state": single.state, "reason": reason}, id_=id_)
            outcome = None
            if await self._pollers[database].wait_for(id_, definition.reply_timeout):
                outcome = await self._threads.run(
                    definition.name,
                    lambda: self._handler.find_outcome(database, id_),
                    is_known=not definition.is_public,
                )
        if outcome is None:
            reason = f"The work order was not finished within {definition.reply_timeout:g} s. It continues."
            return _json(202, {"state": single.state, "reason": reason}, id_=id_)
        code = definition.success_code if outcome.state == _SUCCESS else definition.failure_code
        return _json(code, _result_of(outcome, tells_errors=definition.tells_errors), id_=id_)

    async def _add_counts(self, database: str, counts: Counts) -> None:
        await self._threads.run_alone(f"counts {database}", lambda: self._handler.add_counts(database, counts))

    async def _ended(self, database: str, ids: Collection[UUID]) -> Collection[UUID]:
        return await self._threads.run_alone(f"database {database}", lambda: self._handler.find_ended(database, ids))


def make_app(
    hooks: Hooks, handler: RequestHandler, secret: Callable[[str], Secret], clock: Callable[[], float]
) -> FastAPI:
    """Return the application. It has no documentation pages, because everybody could read them."""
    app = FastAPI(title="Webhooks", docs_url=None, redoc_url=None, openapi_url=None)
    answer = Webhooks(hooks, handler, secret, clock).answer
    app.add_api_route("/{path:path}", answer, methods=list(_METHODS), response_model=None)
    return app


def _peer(request: Request) -> str | None:
    return request.client.host if request.client else None


def _require_acceptable(hook: Hook, request: Request, received: Received) -> None:
    definition = hook.definition
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
    if definition.requires_json_type and media_type != "application/json":
        raise RefusedError(
            415,
            "not-json-type",
            "The body does not have the type application/json; nothing was created. A browser that knows the password "
            "sends other types for any page that asks it to. Send the header Content-Type: application/json.",
        )
    if definition.reply == "after_completion" and received.key is not None and not definition.proves_key():
        raise RefusedError(
            400,
            "unproved-key",
            "Nothing was created: this webhook answers with results, and nothing shows that the Idempotency-Key is "
            "the caller's own. Send the request without it.",
        )
    declared = request.headers.get("content-length", "")
    # A superscript two is a digit but not a number, and Python does not parse thousands of digits.
    if declared.isascii() and declared.isdigit():
        length = declared.lstrip("0")
        if len(length) > _MAX_LENGTH_DIGITS or int(length or "0") > definition.max_body_bytes:
            raise too_large(definition.max_body_bytes)


async def _read(hook: Hook, request: Request, incoming: IncomingBody) -> bytes:
    try:
        return await incoming.read(request.stream(), hook.definition.max_body_bytes)
    except ClientDisconnect as error:
        raise RefusedError(400, "disconnected", "The caller closed the connection; nothing was created.") from error
    except RefusedError as refusal:
        refusal.headers["Connection"] = "close"
        raise


def _state_of(single: CreateResult) -> dict[str, Any]:
    state: dict[str, Any] = {"state": single.state}
    if single.reason is not None:
        state |= {"error": single.reason, "reason": single.detail}
    return state


def _result_of(outcome: WorkOrderOutcome, *, tells_errors: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"state": outcome.state}
    # The reason of a rejection is this package's text. The text of an exception may contain anything that the
    # workflow's author, a library, or the input put into it.
    if (outcome.error is not None or outcome.error_type is not None) and (tells_errors or outcome.state == _REJECTED):
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
