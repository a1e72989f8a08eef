"""The application as its server calls it, without Postgres: what happens before a work order is made."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from hmac import new
from threading import Event
from typing import Any
from uuid import uuid4

import orjson
import pytest
from fastapi import FastAPI

from support.webhooks import stored_webhook
from workorders.core import kept_value
from workorders.core.creation.create_one import CreateResult
from workorders.webhook.app import Webhooks, make_app
from workorders.webhook.authentication import Secret
from workorders.webhook.callers import Callers
from workorders.webhook.handler import RequestHandler
from workorders.webhook.hooks import Hook, Hooks
from workorders.webhook.requests import MAX_REQUESTS, Received
from workorders.webhook.stored_webhooks import StoredWebhook

Headers = list[tuple[bytes, bytes]]
KEY = {"type": "api_key", "connection": "shop"}
SIGNED = {"type": "hmac", "connection": "shop"}
BASIC = {"type": "basic", "connection": "shop"}
STANDARD = {"type": "standard_webhooks", "connection": "shop"}
STRIPE = {"type": "stripe", "connection": "shop"}
SLACK = {"type": "slack", "connection": "shop"}
JSON = (b"content-type", b"application/json")


class Taken(RequestHandler):
    """Takes everything."""

    def __init__(self) -> None:
        super().__init__(str)
        self.received: list[Received] = []

    def create(self, hook: Hook, received: Received) -> CreateResult:
        self.received.append(received)
        return CreateResult(uuid4(), "pending", created=True)


class Server:
    """Calls the application as a server does.

    Args:
        fields: more of the definition of each webhook.
    """

    def __init__(self, **fields: Mapping[str, Any]) -> None:
        self.stored = [stored_webhook(name, workflow="ship", **more) for name, more in fields.items()]
        self.handler = Taken()
        self.now = 0.0
        self.reads = 0
        self.hangs = False
        self.look_ups = Event()
        self.look_ups.set()
        self.lists = Event()
        self.lists.set()
        hooks, callers = Hooks(self._list_stored, lambda: self.now), Callers(self._secret, lambda: self.now)
        self.app: FastAPI = make_app(Webhooks(hooks, self.handler, callers))

    def _list_stored(self) -> list[StoredWebhook]:
        self.hangs |= not self.lists.is_set()
        assert self.lists.wait(60)
        return self.stored

    def _secret(self, connection_id: str) -> Secret:
        if connection_id == "slow":
            self.hangs = True
            assert self.look_ups.wait(60)
        return Secret("ada", "right")

    async def call(
        self, path: str, headers: Headers, body: bytes = b"{}", *, ends: bool = True
    ) -> tuple[int, dict[str, Any], dict[bytes, bytes]]:
        """Return status, content and headers of the answer."""
        sent: list[Any] = []
        messages = [{"type": "http.request", "body": body, "more_body": not ends}]

        async def receive() -> dict[str, Any]:
            self.reads += 1
            if messages:
                return messages.pop()
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": headers,
            "client": ("192.0.2.1", 5),
            "server": ("127.0.0.1", 8080),
        }
        await self.app(scope, receive, send)
        return sent[0]["status"], orjson.loads(sent[1]["body"]), dict(sent[0]["headers"])


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("authentication", "headers"),
    [
        (KEY, []),
        (KEY, [(b"x-api-key", b"wrong")]),
        (BASIC, [JSON]),
        (BASIC, [JSON, (b"authorization", b"Basic eDp5")]),
        (SIGNED, []),
        (SIGNED, [(b"x-signature", b"short")]),
        (STANDARD, []),
        (STANDARD, [(b"webhook-id", b"a"), (b"webhook-timestamp", b"1"), (b"webhook-signature", b"v1,short")]),
        (STRIPE, [(b"stripe-signature", b"t=1,v1=short")]),
        (SLACK, [(b"x-slack-signature", b"v0=short"), (b"x-slack-request-timestamp", b"1")]),
    ],
)
def test_no_body_is_read_of_a_caller_without_a_proof(authentication: dict[str, str], headers: Headers) -> None:
    server = Server(shop={"authentication": authentication})
    status, content, answered = asyncio.run(server.call("/shop", headers, ends=False))
    assert (status, content["error"], server.reads) == (401, "not-authenticated", 0)
    assert answered[b"connection"] == b"close"


def test_256_bodies_that_do_not_end_keep_no_valid_caller_out() -> None:
    server = Server(open={"authentication": "public"}, signed={"authentication": SIGNED}, shop={"authentication": KEY})

    async def scene() -> list[int]:
        forged = [(b"x-signature", b"0" * 64)]
        strangers = [
            asyncio.create_task(server.call(path, headers, ends=False))
            for path, headers in (("/open", []), ("/signed", forged))
            for _ in range(256)
        ]
        await until(lambda: server.reads == 2 * len(strangers))
        callers: list[tuple[str, Headers]] = [("/open", []), ("/shop", [(b"x-api-key", b"right")])]
        answers = [await asyncio.wait_for(server.call(path, headers), 30) for path, headers in callers]
        assert not any(stranger.done() for stranger in strangers)
        for stranger in strangers:
            stranger.cancel()
        await asyncio.gather(*strangers, return_exceptions=True)
        return [status for status, _, _ in answers]

    assert asyncio.run(scene()) == [201, 201]


def test_a_webhook_whose_database_hangs_takes_as_many_requests_as_may_wait_and_stops_no_other() -> None:
    server, release = Server(slow={"authentication": "public"}, shop={"authentication": "public"}), Event()
    create = server.handler.create

    def hang(hook: Hook, received: Received) -> CreateResult:
        assert hook.definition.name == "shop" or release.wait(60)
        return create(hook, received)

    server.handler.create = hang  # type: ignore[method-assign]

    async def scene() -> None:
        requests = [asyncio.create_task(server.call("/slow", [])) for _ in range(MAX_REQUESTS + 10)]
        try:
            await until(lambda: sum(request.done() for request in requests) == 10)
            assert (await asyncio.wait_for(server.call("/shop", []), 30))[0] == 201
        finally:
            release.set()
        statuses = [status for status, _, _ in await asyncio.gather(*requests)]
        assert (statuses.count(201), statuses.count(503)) == (MAX_REQUESTS, 10)

    asyncio.run(scene())


def test_a_database_of_webhooks_that_hangs_does_not_hold_the_servers_event_loop() -> None:
    server = Server(shop={"authentication": "public"})
    server.lists.clear()

    async def scene() -> None:
        callers = [asyncio.create_task(server.call("/shop", [])) for _ in range(3)]
        await until(lambda: server.hangs)
        assert not any(caller.done() for caller in callers)
        server.lists.set()
        assert [status for status, _, _ in await asyncio.gather(*callers)] == [201] * 3

    asyncio.run(scene())


def test_a_look_up_that_hangs_delays_no_caller_of_another_webhook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_value, "_PATIENCE_SECONDS", 60)
    server = Server(slow={"authentication": {**KEY, "connection": "slow"}}, shop={"authentication": KEY})

    async def scene() -> None:
        server.look_ups.clear()
        strangers = [asyncio.create_task(server.call("/slow", [(b"x-api-key", b"guess")])) for _ in range(64)]
        await until(lambda: server.hangs)
        try:
            answer = await asyncio.wait_for(server.call("/shop", [(b"x-api-key", b"right")]), 30)
            assert answer[0] == 201
            assert not any(stranger.done() for stranger in strangers)
        finally:
            server.look_ups.set()
        assert {status for status, _, _ in await asyncio.gather(*strangers)} == {401}

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("declared", "status"),
    [(b"\xb2", 201), (b"2", 201), (b"0002", 201), (b"1048577", 413), (b"9" * 5000, 413), (b"0" * 5000, 201)],
)
def test_a_declared_length_is_a_number_or_nothing(declared: bytes, status: int) -> None:
    server = Server(shop={"authentication": "public"})
    answered, _, _ = asyncio.run(server.call("/shop", [(b"content-length", declared)]))
    assert answered == status


@pytest.mark.parametrize(
    ("media_type", "status"),
    [
        (None, 415),
        (b"text/plain", 415),
        (b"text/plain; application/json", 415),
        (b"Application/JSON; charset=utf-8", 201),
    ],
)
def test_a_browser_is_not_made_to_send_its_password_for_a_foreign_page(media_type: bytes | None, status: int) -> None:
    server = Server(shop={"authentication": BASIC}, keyed={"authentication": KEY})
    sent = [] if media_type is None else [(b"content-type", media_type)]
    answered, content, _ = asyncio.run(server.call("/shop", [*sent, (b"authorization", b"Basic YWRhOnJpZ2h0")]))
    assert (answered, content.get("error")) == (status, None if status == 201 else "not-json-type")
    assert asyncio.run(server.call("/keyed", [*sent, (b"x-api-key", b"right")]))[0] == 201


@pytest.mark.parametrize(
    ("body", "answer", "created"),
    [
        (b'{"type":"url_verification","challenge":"3eZb"}', {"challenge": "3eZb"}, 0),
        (b'{"type":"event_callback","challenge":"3eZb"}', None, 1),
    ],
)
def test_slacks_check_of_the_url_is_answered_and_creates_nothing(
    body: bytes, answer: dict[str, str] | None, created: int
) -> None:
    server, at = Server(events={"authentication": SLACK}), str(int(time.time())).encode()
    signature = "v0=" + new(b"right", b"v0:" + at + b":" + body, sha256).hexdigest()
    headers = [(b"x-slack-request-timestamp", at), (b"x-slack-signature", signature.encode())]
    status, content, _ = asyncio.run(server.call("/events", headers, body))
    assert (status, len(server.handler.received)) == (201 if created else 200, created)
    assert answer is None or content == answer
    forged = [headers[0], (b"x-slack-signature", b"v0=" + b"0" * 64)]
    assert asyncio.run(server.call("/events", forged, body))[0] == 401


def test_a_line_of_the_log_cannot_be_forged(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(shop={"authentication": "public"})

    async def scene() -> None:
        await server.call("/x\r2026-01-01 ERROR forged\x1b[31m", [])
        await server.call("/shop", [(b"content-encoding", b"\x1b[31m\x85forged" + b"y" * 10_000)])

    with caplog.at_level(logging.WARNING):
        asyncio.run(scene())
    found = [record.getMessage() for record in caplog.records if record.name.startswith("workorders")]
    assert len(found) == 2
    assert all(line.isprintable() and len(line) < 1_000 for line in found)


def test_a_caller_that_leaves_before_its_body_ends_is_no_error_of_the_server() -> None:
    server = Server(shop={"authentication": "public"})
    answers: list[Any] = []

    async def scene() -> None:
        messages = [{"type": "http.disconnect"}, {"type": "http.request", "body": b"{", "more_body": True}]

        async def receive() -> Any:
            return messages.pop()

        async def send(message: Any) -> None:
            answers.append(message)

        scope: dict[str, Any] = {
            "type": "http",
            "method": "POST",
            "path": "/shop",
            "query_string": b"",
            "root_path": "",
            "headers": [],
            "client": None,
        }
        await server.app(scope, receive, send)

    asyncio.run(scene())
    assert (answers[0]["status"], server.handler.received) == (400, [])
