"""The authentication methods that a webhook's file may name: a key or a password that the caller sends, and signatures.

Pure.
"""

from base64 import b64decode
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Tag

from workorders.webhook.method import HeaderName, Method, Secret, is_same, raw_bytes
from workorders.webhook.signatures import Hmac, Slack, StandardWebhooks, Stripe


class ApiKey(Method):
    """The caller sends a key in a header."""

    type: Literal["api_key"]
    """A key in a header."""
    header: HeaderName = "x-api-key"
    """Header that carries the key."""

    def missing(self, headers: Mapping[str, str]) -> str | None:
        """Return which part of the credentials is missing or malformed, or None."""
        return None if self.header in headers else f"the header {self.header} with the key is missing"

    def fault(self, secret: Secret, headers: Mapping[str, str]) -> str | None:
        """Return why the caller is refused, or None."""
        wrong = f"the key in the header {self.header} is wrong"
        return self.missing(headers) or (None if is_same(raw_bytes(headers[self.header]), secret.password) else wrong)


class Basic(Method):
    """The caller sends a user name and a password (RFC 7617)."""

    type: Literal["basic"]
    """A user name and a password."""

    def missing(self, headers: Mapping[str, str]) -> str | None:
        """Return which part of the credentials is missing or malformed, or None."""
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return "the header authorization with the scheme Basic is missing"
        if _decoded(credentials) is None:
            return "the header authorization is not in the form of the scheme Basic"
        return None

    def fault(self, secret: Secret, headers: Mapping[str, str]) -> str | None:
        """Return why the caller is refused, or None."""
        if missing := self.missing(headers):
            return missing
        given = _decoded(headers["authorization"].partition(" ")[2]) or b""
        expected = f"{secret.login}:{secret.password}"
        return None if is_same(given, expected) else "the user name or the password is wrong"


def _decoded(credentials: str) -> bytes | None:
    try:
        return b64decode(credentials.strip(), validate=True)
    except ValueError:
        return None


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
