"""The authentication methods that a webhook's file may name. Pure."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Tag

from workorders.webhook.credentials import ApiKey, Basic
from workorders.webhook.hmac_signature import Hmac
from workorders.webhook.sender_signatures import Slack, StandardWebhooks, Stripe


def _kind(value: Any) -> str | None:
    """Return the tag of the form; None, which is refused, for a mapping without a known type."""
    if isinstance(value, str):
        return value if value == PUBLIC else None
    return value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)


PUBLIC: Final = "public"
"""Written instead of a method: everybody may call."""
Authentication = Annotated[
    Annotated[Literal["public"], Tag(PUBLIC)]
    | Annotated[ApiKey, Tag("api_key")]
    | Annotated[Basic, Tag("basic")]
    | Annotated[Hmac, Tag("hmac")]
    | Annotated[StandardWebhooks, Tag("standard_webhooks")]
    | Annotated[Stripe, Tag("stripe")]
    | Annotated[Slack, Tag("slack")],
    # The wrong value is not repeated: it may be a secret that belongs into a connection.
    Discriminator(
        _kind,
        custom_error_type="value_error",
        custom_error_context={
            "error": "expected public, or a mapping with the type api_key, basic, hmac, standard_webhooks, stripe or "
            "slack."
        },
    ),
]
