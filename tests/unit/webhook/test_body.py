import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest
from fastapi import Request

from workorders.webhook import requests
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.hooks import Hook
from workorders.webhook.refusals import RefusedError
from workorders.webhook.requests import received_body


class Sender:
    """A request whose body is sent in parts, with a pause before each, and possibly without an end."""

    def __init__(self, *parts: bytes, pause: float = 0.0, ends: bool = True) -> None:
        self._parts, self._pause, self._ends = parts, pause, ends

    async def stream(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            await asyncio.sleep(self._pause)
            yield part
        if not self._ends:
            await asyncio.Event().wait()


def hook() -> Hook:
    return Hook(WebhookTriggerDefinition(name="shop", workflow="ship", authentication="public", max_body_bytes=100))


async def receive(webhook: Hook, sender: Sender) -> bytes | str:
    """Return the body, or the word of the refusal."""
    try:
        async with received_body(webhook, cast("Request", sender)) as content:
            return content
    except RefusedError as refusal:
        return refusal.code


def test_a_body_that_is_too_large_is_refused_at_the_first_byte_too_many() -> None:
    assert asyncio.run(receive(hook(), Sender(b"a" * 100, b"b", ends=False))) == "too-large"


@pytest.mark.parametrize("sender", [Sender(ends=False), Sender(*[b"x"] * 100, pause=0.05)])
def test_a_body_that_is_not_complete_in_time_is_refused(monkeypatch: pytest.MonkeyPatch, sender: Sender) -> None:
    monkeypatch.setattr(requests, "MAX_SECONDS", 0.1)
    assert asyncio.run(asyncio.wait_for(receive(hook(), sender), 4)) == "too-slow"


def test_a_webhook_holds_no_more_bytes_than_its_limit_and_the_bytes_of_a_request_until_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "MAX_BYTES", 250)

    async def scene() -> None:
        webhook = hook()
        async with received_body(webhook, cast("Request", Sender(b"x" * 100))):
            other = asyncio.create_task(receive(webhook, Sender(b"x" * 100, ends=False)))
            while webhook.body_bytes < 200:
                await asyncio.sleep(0)
            assert await receive(webhook, Sender(b"x" * 51)) == "busy"
            assert await receive(webhook, Sender(b"x" * 50)) == b"x" * 50
            assert await receive(hook(), Sender(b"x" * 100)) == b"x" * 100
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
        assert webhook.body_bytes == 0

    asyncio.run(scene())
