"""The signatures of known senders: Standard Webhooks, Stripe, and Slack. Pure."""

import hmac
import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal

import orjson
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from workorders.core.definitions.fields import seconds
from workorders.webhook.method import Secret, SignatureMethod, is_near, is_same, raw_bytes

_STANDARD_SIGNATURE: Final = re.compile(r"v1,[A-Za-z0-9+/]{43}=")
_STRIPE_SIGNATURE: Final = re.compile(r"v1=[0-9a-f]{64}")
_SLACK_SIGNATURE: Final = re.compile(r"v0=[0-9a-f]{64}")
_UNIX_TIME: Final = re.compile(r"[0-9]{1,12}")
_SLACK_HEADER: Final = "x-slack-signature"
_SLACK_TIME_HEADER: Final = "x-slack-request-timestamp"
_STRIPE_HEADER: Final = "stripe-signature"
Tolerance = Annotated[float, seconds(1)]


class StandardWebhooks(SignatureMethod):
    """The caller signs as the specification Standard Webhooks describes."""

    type: Literal["standard_webhooks"]
    """A signature by the specification Standard Webhooks. The password of the connection is the secret that the sender
    shows, with `whsec_` before it or without. The time of a request may be 5 minutes from now."""
    header_prefix: Literal["webhook", "svix"] = "webhook"
    """How the names of the three headers begin: `webhook-id`, `webhook-timestamp`, and `webhook-signature`, or the same
    with `svix`. The header with the id is the key of the event."""

    @property
    def key_header(self) -> str:
        """Header with which a caller identifies its event, in lower case."""
        return f"{self.header_prefix}-id"

    @property
    def secret_headers(self) -> frozenset[str]:
        """Headers that carry the credentials, in lower case; they are never stored."""
        return super().secret_headers | {f"{self.header_prefix}-signature"}

    @property
    def proved_headers(self) -> frozenset[str]:
        """Headers that the signature covers, in lower case."""
        return frozenset({self.key_header})

    def missing(self, headers: Mapping[str, str]) -> str | None:
        """Return which part of the credentials is missing or malformed, or None."""
        for part in ("id", "timestamp", "signature"):
            if not headers.get(f"{self.header_prefix}-{part}"):
                return f"the header {self.header_prefix}-{part} of Standard Webhooks is missing"
        if not any(map(_STANDARD_SIGNATURE.fullmatch, headers[f"{self.header_prefix}-signature"].split(" "))):
            return f"the header {self.header_prefix}-signature has no signature in the form v1,<base64>"
        return None

    def fault(
        self, secret: Secret, headers: Mapping[str, str], body: bytes = b"", *, path: str = "", now: float = 0.0
    ) -> str | None:
        """Return why the caller is refused, or None; see SignatureMethod.fault. The library reads the clock itself."""
        del path, now
        if missing := self.missing(headers):
            return missing
        signed = {f"webhook-{part}": headers[f"{self.header_prefix}-{part}"] for part in ("id", "timestamp")}
        # The library gives up at a part that it cannot read, also if another one is right.
        readable = filter(_STANDARD_SIGNATURE.fullmatch, headers[f"{self.header_prefix}-signature"].split(" "))
        signed["webhook-signature"] = " ".join(readable)
        try:
            verifier = Webhook(secret.password)
        except Exception:  # noqa: BLE001 - which errors it raises for a wrong secret is not documented
            return "the secret of this webhook is not one of Standard Webhooks, which is base64 after whsec_"
        try:
            verifier.verify(body, signed, json_parse=False)
        except WebhookVerificationError as error:
            return f"the signature by Standard Webhooks is not valid ({error})"
        except Exception:  # noqa: BLE001 - the same for hostile headers and bodies
            return "the signature by Standard Webhooks is not valid, because a header or the body is malformed"
        return None


class Stripe(SignatureMethod):
    """The caller is Stripe."""

    type: Literal["stripe"]
    """A signature as Stripe makes it, in the header `Stripe-Signature`. The password of the connection is the signing
    secret of the endpoint, with its `whsec_`."""
    tolerance: Tolerance = 300.0
    """How far the time of the signature may be from now."""

    @property
    def secret_headers(self) -> frozenset[str]:
        """Headers that carry the credentials, in lower case; they are never stored."""
        return super().secret_headers | {_STRIPE_HEADER}

    def missing(self, headers: Mapping[str, str]) -> str | None:
        """Return which part of the credentials is missing or malformed, or None."""
        if _STRIPE_HEADER not in headers:
            return f"the header {_STRIPE_HEADER} is missing"
        time, signatures = _stripe_parts(headers)
        return None if time and signatures else f"the header {_STRIPE_HEADER} is not in the form t=<time>,v1=<hex>"

    def fault(
        self, secret: Secret, headers: Mapping[str, str], body: bytes = b"", *, path: str = "", now: float = 0.0
    ) -> str | None:
        """Return why the caller is refused, or None; see SignatureMethod.fault."""
        del path
        if missing := self.missing(headers):
            return missing
        time, signatures = _stripe_parts(headers)
        expected = "v1=" + _sha256(secret, f"{time}.".encode(), body)
        # While a secret of Stripe is replaced, one signature is by the old one and another by the new one.
        if not any(is_same(signature.encode(), expected) for signature in signatures):
            return f"no signature in the header {_STRIPE_HEADER} is the one of this request"
        if is_near(time, now, self.tolerance):
            return None
        return f"the time in the header {_STRIPE_HEADER} is not within {self.tolerance:g} s of now"


class Slack(SignatureMethod):
    """The caller is Slack's Events API."""

    type: Literal["slack"]
    """A signature as Slack makes it, in the header `X-Slack-Signature`. The password of the connection is the signing
    secret of the app."""
    tolerance: Tolerance = 300.0
    """How far the time of the signature may be from now."""

    @property
    def secret_headers(self) -> frozenset[str]:
        """Headers that carry the credentials, in lower case; they are never stored."""
        return super().secret_headers | {_SLACK_HEADER}

    @property
    def proved_headers(self) -> frozenset[str]:
        """Headers that the signature covers, in lower case."""
        return frozenset({_SLACK_TIME_HEADER})

    def missing(self, headers: Mapping[str, str]) -> str | None:
        """Return which part of the credentials is missing or malformed, or None."""
        for name, form in ((_SLACK_HEADER, _SLACK_SIGNATURE), (_SLACK_TIME_HEADER, _UNIX_TIME)):
            if name not in headers:
                return f"the header {name} is missing"
            if not form.fullmatch(headers[name]):
                return f"the header {name} is not in the form that Slack sends"
        return None

    def fault(
        self, secret: Secret, headers: Mapping[str, str], body: bytes = b"", *, path: str = "", now: float = 0.0
    ) -> str | None:
        """Return why the caller is refused, or None; see SignatureMethod.fault."""
        del path
        if missing := self.missing(headers):
            return missing
        time = headers[_SLACK_TIME_HEADER]
        if not is_same(raw_bytes(headers[_SLACK_HEADER]), "v0=" + _sha256(secret, f"v0:{time}:".encode(), body)):
            return f"the signature in the header {_SLACK_HEADER} is not the one of this request"
        if is_near(time, now, self.tolerance):
            return None
        return f"the time in the header {_SLACK_TIME_HEADER} is not within {self.tolerance:g} s of now"

    def challenge(self, body: bytes) -> str | None:
        """Return the challenge by which Slack checks a new URL; None for an event."""
        try:
            content = orjson.loads(body)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(content, dict) or content.get("type") != "url_verification":
            return None
        challenge = content.get("challenge")
        return challenge if isinstance(challenge, str) else None


def _stripe_parts(headers: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the time, empty if there is none, and the well-formed signatures of the scheme v1."""
    parts = headers[_STRIPE_HEADER].split(",")
    times = [part[2:] for part in parts if part.startswith("t=") and _UNIX_TIME.fullmatch(part[2:])]
    return (times[0] if times else "", [part for part in parts if _STRIPE_SIGNATURE.fullmatch(part)])


def _sha256(secret: Secret, before: bytes, body: bytes) -> str:
    digest = hmac.new(secret.password.encode(), before, "sha256")
    digest.update(body)  # on its own: a body of 32 MiB is not copied
    return digest.hexdigest()
