"""Receives requests within limits of size and time, and converts each to an item."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import orjson
from fastapi import Request
from starlette.requests import ClientDisconnect

from workorders.core.creation.json_validation import validate_body
from workorders.core.definitions.fields import MIB
from workorders.core.items import Item
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.hooks import Hook
from workorders.webhook.refusals import RefusedError, TryAgainError

MAX_SECONDS: Final = 30.0
"""Time that a body has to arrive."""
MAX_BYTES: Final = 128 * MIB
"""Bytes of bodies that one webhook holds: those that arrive, and those whose requests are processed."""
MAX_REQUESTS: Final = 128
"""Requests of one webhook whose bodies have arrived: they have one of its threads, or wait for one."""
_MAX_LENGTH_DIGITS: Final = 18
"""Digits of a declared length that are parsed; no body is longer than such a number."""


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it was received."""

    path: str
    """The whole path of the URL."""
    headers: Sequence[tuple[str, str]]
    """Names in lower case; a name may be repeated."""
    remote_address: str | None
    body: bytes
    at: datetime

    @property
    def by_name(self) -> Mapping[str, str]:
        """The first value of each header."""
        return dict(reversed(self.headers))


def item(definition: WebhookTriggerDefinition, received: Received) -> Item:
    """Return the item of a request.

    Raises:
        RefusedError: the body is not a JSON object that can be an input.
    """
    rejection = validate_body(received.body, definition.max_body_bytes)
    if rejection is not None:
        status = 422 if rejection.code == "not-an-object" else 400
        raise RefusedError(
            status, rejection.code, f"The body must be a JSON object, and {rejection.detail}; nothing was created."
        )
    metadata: dict[str, object] = {
        "method": "POST",
        "path": received.path,
        "headers": [pair for pair in received.headers if pair[0] in definition.headers],
        "remote_address": received.remote_address,
        "received_at": received.at.astimezone(UTC),
    }
    if (key := definition.key_of(received.by_name)) is not None:
        metadata["key"] = key
    return Item(None, None, orjson.dumps(metadata, option=orjson.OPT_UTC_Z), received.body)


def require_length(declared: str, max_bytes: int) -> None:
    """Refuse a body that is larger than `max_bytes` by its Content-Length."""
    # A superscript two is a digit but not a number, and Python does not parse thousands of digits.
    if declared.isascii() and declared.isdigit():
        length = declared.lstrip("0")
        if len(length) > _MAX_LENGTH_DIGITS or int(length or "0") > max_bytes:
            raise _too_large(max_bytes)


@asynccontextmanager
async def received_body(hook: Hook, request: Request) -> AsyncIterator[bytes]:
    """Receive the body of a request, and count its bytes until the end of the block.

    Raises:
        RefusedError: it is too large or too slow, or the caller closed the connection.
        TryAgainError: the webhook holds too many bytes, or too many requests.
    """
    content = bytearray()
    try:
        try:
            async with asyncio.timeout(MAX_SECONDS):
                async for part in request.stream():
                    hook.body_bytes += len(part)
                    content += part
                    if len(content) > hook.definition.max_body_bytes:
                        raise _too_large(hook.definition.max_body_bytes)
                    if hook.body_bytes > MAX_BYTES:
                        raise TryAgainError("busy", "Nothing was created: the webhook receives too much.", seconds=1)
        except TimeoutError as error:
            reason = f"The body was too slow; nothing was created; send it within {MAX_SECONDS:g} s."
            raise RefusedError(408, "too-slow", reason) from error
        except ClientDisconnect as error:
            reason = "The caller closed the connection; nothing was created."
            raise RefusedError(400, "disconnected", reason) from error
        if hook.requests >= MAX_REQUESTS:
            raise TryAgainError("busy", "Nothing was created: the webhook processes too many requests.", seconds=1)
        hook.requests += 1
        try:
            # One copy at a time in the whole process, because nothing is awaited here.
            yield bytes(content)
        finally:
            hook.requests -= 1
    finally:
        hook.body_bytes -= len(content)


def _too_large(max_bytes: int) -> RefusedError:
    return RefusedError(
        413, "too-large", f"The body has more than the {max_bytes} bytes that this webhook takes; nothing was created."
    )
