"""Converts a request to an item. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson

from workorders.core.creation.json_validation import validate_body
from workorders.core.items import Item
from workorders.webhook.authentication import KEY_HEADER
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.refusals import RefusedError


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
    key_header: str = KEY_HEADER
    """Header that identifies the event, in lower case."""

    @property
    def by_name(self) -> Mapping[str, str]:
        """The first value of each header."""
        return dict(reversed(self.headers))

    @property
    def key(self) -> str | None:
        """The value of the `key_header`; None if it is missing or empty."""
        return self.by_name.get(self.key_header) or None


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
    return Item(None, None, _request(definition, received), received.body)


def _request(definition: WebhookTriggerDefinition, received: Received) -> bytes:
    kept = [pair for pair in received.headers if pair[0] in definition.headers]
    metadata: dict[str, object] = {
        "method": "POST",
        "path": received.path,
        "headers": kept,
        "remote_address": received.remote_address,
        "received_at": received.at.astimezone(UTC),
    }
    if received.key is not None:
        metadata["key"] = received.key
    return orjson.dumps(metadata, option=orjson.OPT_UTC_Z)
