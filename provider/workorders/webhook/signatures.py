"""Methods by which callers sign the body: in a form that the webhook's file describes, or as a known sender. Pure."""

import hashlib
import hmac
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, NamedTuple

import orjson
from pydantic import model_validator
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from workorders.core.definitions.fields import expecting, seconds
from workorders.webhook.method import KEY_HEADER, HeaderName, Secret, SignatureMethod, is_near, is_same, raw_bytes

_STANDARD_SIGNATURE: Final = re.compile(r"v1,[A-Za-z0-9+/]{43}=")
_STRIPE_SIGNATURE: Final = re.compile(r"v1=[0-9a-f]{64}")
_SLACK_SIGNATURE: Final = re.compile(r"v0=[0-9a-f]{64}")
_UNIX_TIME: Final = re.compile(r"[0-9]{1,12}")
_SLACK_HEADER: Final = "x-slack-signature"
_SLACK_TIME_HEADER: Final = "x-slack-request-timestamp"
_STRIPE_HEADER: Final = "stripe-signature"
Tolerance = Annotated[float, seconds(1)]


class Signed(NamedTuple):
    """The signatures in a header of a request, what they sign before the body, and their Unix time, if any."""

    header: str
    given: Sequence[str]
    before: bytes
    time_header: str | None
    time: str
    prefix: str
    algorithm: str = "sha256"
    encoding: str = "hex"

    def written(self, digest: bytes) -> str:
        """Return a signature as the header has it."""
        return self.prefix + (digest.hex() if self.encoding == "hex" else b64encode(digest).decode())


class KeyedHash(SignatureMethod):
    """Base of the methods whose signature is a hash of the body and of what is before it, by the secret."""

    def signed(self, headers: Mapping[str, str], path: str) -> Signed | str:
        """Return the signatures of a request, or which part of them is missing or malformed."""
        raise NotImplementedError

    def missing(self, headers: Mapping[str, str]) -> str | None:
        """Return which part of the credentials is missing or malformed, or None."""
        found = self.signed(headers, "")
        return found if isinstance(found, str) else None

    def fault(
        self, secret: Secret, headers: Mapping[str, str], body: bytes = b"", *, path: str = "", now: float = 0.0
    ) -> str | None:
        """Return why the caller is refused, or None; see SignatureMethod.fault."""
        found = self.signed(headers, path)
        if isinstance(found, str):
            return found
        # The signature first: a caller that does not know the secret learns nothing about the time.
        digest = hmac.new(secret.password.encode(), found.before, found.algorithm)
        digest.update(body)  # separately: a body of 32 MiB is not copied
        expected = found.written(digest.digest())
        if not any(is_same(raw_bytes(given), expected) for given in found.given):
            return f"no signature in the header {found.header} is the one of this request"
        tolerance: float = getattr(self, "tolerance", 0.0)
        if found.time_header is None or is_near(found.time, now, tolerance):
            return None
        return f"the time in the header {found.time_header} is not within {tolerance:g} s of now"


class Hmac(KeyedHash):
    """The caller signs the body with a shared secret."""

    type: Literal["hmac"]
    """A signature of the body."""
    header: HeaderName = "x-signature"
    """Header that carries the signature."""
    prefix: str = ""
    """Text before the signature in its header, such as `sha256=`."""
    algorithm: Literal["sha256", "sha512"] = "sha256"
    """Hash function of the signature."""
    encoding: Literal["hex", "base64"] = "hex"
    """How the signature is written."""
    timestamp_header: HeaderName | None = None
    """Header with the Unix time (seconds) of the signature. The caller then signs the header's text, a dot and the
    body, and an old request cannot be sent again."""
    tolerance: Annotated[float, seconds(1)] = 300.0
    """How far the time in `timestamp_header` may be from now."""
    signed_headers: (
        Annotated[tuple[HeaderName, ...], expecting(f"a list of header names such as [{KEY_HEADER}]")] | None
    ) = None
    """Headers that the caller signs together with the webhook's path; an empty list signs the path alone. Before the
    body, the caller signs the line `path`, and for each of these headers, in this order, the line `name:value`. Without
    this field, the caller signs neither."""

    @model_validator(mode="after")
    def _tolerance_has_a_time(self) -> "Hmac":
        if "tolerance" in self.model_fields_set and self.timestamp_header is None:
            raise ValueError("expected timestamp_header with tolerance: without a signed time no request is too old.")
        return self

    @property
    def proved_headers(self) -> frozenset[str]:
        """Headers that the signature covers, in lower case."""
        return frozenset(self.signed_headers or ())

    def signed(self, headers: Mapping[str, str], path: str) -> Signed | str:
        """Return the signature of a request, or what is missing or malformed."""
        given = headers.get(self.header)
        if given is None:
            return f"the header {self.header} with the signature is missing"
        if self.timestamp_header is not None and self.timestamp_header not in headers:
            return f"the header {self.timestamp_header} with the time of the signature is missing"
        before, time = self._before_body(headers, path), headers.get(self.timestamp_header or "", "")
        form = (self.prefix, self.algorithm, self.encoding)
        found = Signed(self.header, [given], before, self.timestamp_header, time, *form)
        if len(raw_bytes(given)) != len(found.written(hashlib.new(self.algorithm).digest()).encode()):
            return f"the signature in the header {self.header} does not have the length of one by {self.algorithm}"
        return found

    def _before_body(self, headers: Mapping[str, str], path: str) -> bytes:
        time = b"" if self.timestamp_header is None else raw_bytes(headers[self.timestamp_header]) + b"."
        if self.signed_headers is None:
            return time
        # A missing header is signed as an empty one, so that it cannot be removed or added.
        lines = (raw_bytes(f"{name}:{headers.get(name, '')}") for name in self.signed_headers)
        return time + b"".join(line + b"\n" for line in (path.encode(), *lines))


class StandardWebhooks(SignatureMethod):
    """The caller signs as the specification Standard Webhooks describes."""

    signature_headers = frozenset({"webhook-signature", "svix-signature"})

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


class Stripe(KeyedHash):
    """The caller is Stripe."""

    signature_headers = frozenset({_STRIPE_HEADER})

    type: Literal["stripe"]
    """A signature as Stripe makes it, in the header `Stripe-Signature`. The password of the connection is the signing
    secret of the endpoint, with its `whsec_`."""
    tolerance: Tolerance = 300.0
    """How far the time of the signature may be from now."""

    def signed(self, headers: Mapping[str, str], path: str) -> Signed | str:
        """Return the signatures of the scheme v1, or what is missing; there are two while a secret is replaced."""
        if _STRIPE_HEADER not in headers:
            return f"the header {_STRIPE_HEADER} is missing"
        parts = headers[_STRIPE_HEADER].split(",")
        times = [part[2:] for part in parts if part.startswith("t=") and _UNIX_TIME.fullmatch(part[2:])]
        given = [part for part in parts if _STRIPE_SIGNATURE.fullmatch(part)]
        if not (times and given):
            return f"the header {_STRIPE_HEADER} is not in the form t=<time>,v1=<hex>"
        return Signed(_STRIPE_HEADER, given, f"{times[0]}.".encode(), _STRIPE_HEADER, times[0], "v1=")


class Slack(KeyedHash):
    """The caller is Slack's Events API."""

    signature_headers = frozenset({_SLACK_HEADER})

    type: Literal["slack"]
    """A signature as Slack makes it, in the header `X-Slack-Signature`. The password of the connection is the signing
    secret of the app."""
    tolerance: Tolerance = 300.0
    """How far the time of the signature may be from now."""

    @property
    def proved_headers(self) -> frozenset[str]:
        """Headers that the signature covers, in lower case."""
        return frozenset({_SLACK_TIME_HEADER})

    def signed(self, headers: Mapping[str, str], path: str) -> Signed | str:
        """Return the signature of a request, or what is missing or malformed."""
        for name, form in ((_SLACK_HEADER, _SLACK_SIGNATURE), (_SLACK_TIME_HEADER, _UNIX_TIME)):
            if name not in headers:
                return f"the header {name} is missing"
            if not form.fullmatch(headers[name]):
                return f"the header {name} is not in the form that Slack sends"
        given, time = [headers[_SLACK_HEADER]], headers[_SLACK_TIME_HEADER]
        return Signed(_SLACK_HEADER, given, f"v0:{time}:".encode(), _SLACK_TIME_HEADER, time, "v0=")

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
