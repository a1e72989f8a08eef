"""The authentication methods that a webhook's file may name: keys and passwords that callers send, and signatures."""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, NamedTuple

import orjson
from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from workorders.core.definitions.fields import ConnectionId, Definition, expecting, seconds

HeaderName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"),
    AfterValidator(str.lower),
    expecting("the name of a header such as X-Signature"),
]
Tolerance = Annotated[float, seconds(1)]

_SECONDS: Final = 300.0
"""How far the time of a signature may be from now, unless a file sets it."""
_STANDARD_SIGNATURE: Final = re.compile(r"v1,[A-Za-z0-9+/]{43}=")
_STRIPE_SIGNATURE: Final = re.compile(r"v1=[0-9a-f]{64}")
_SLACK_SIGNATURE: Final = re.compile(r"v0=[0-9a-f]{64}")
_UNIX_TIME: Final = re.compile(r"[0-9]{1,12}")
_SLACK_HEADER: Final = "x-slack-signature"
_SLACK_TIME_HEADER: Final = "x-slack-request-timestamp"
_STRIPE_HEADER: Final = "stripe-signature"


@dataclass(frozen=True, slots=True)
class Secret:
    """The secret of an Airflow connection; never printed."""

    login: str = field(repr=False)
    password: str = field(repr=False)


class Method(Definition):
    """Fields and answers of every authentication method."""

    connection: ConnectionId
    """Airflow connection that holds the secret: its password, and for `basic` its login as well."""
    previous_connection: ConnectionId | None = None
    """Airflow connection with a second secret, which is accepted as well: the previous one, while callers change to the
    new one."""

    @property
    def connections(self) -> tuple[str, ...]:
        """The Airflow connections whose secrets are accepted, the current one first."""
        return tuple(dict.fromkeys(filter(None, (self.connection, self.previous_connection))))

    def missing(self, headers: Mapping[str, str]) -> str | None:
        """Return which part of the credentials is missing or malformed, or None.

        `headers` has the first value of each, by name in lower case.
        """
        raise NotImplementedError

    def fault(self, secret: Secret, headers: Mapping[str, str], body: bytes = b"", *, now: float = 0.0) -> str | None:
        """Return why a caller is refused whose credentials are complete, or None; `now` is the Unix time."""
        raise NotImplementedError


class ApiKey(Method):
    """The caller sends a key in a header."""

    type: Literal["api_key"]
    """A key in a header."""
    header: HeaderName = "x-api-key"
    """Header that carries the key."""

    def missing(self, headers: Mapping[str, str]) -> str | None:
        """Return which part of the credentials is missing or malformed, or None."""
        return None if self.header in headers else f"the header {self.header} with the key is missing"

    def fault(self, secret: Secret, headers: Mapping[str, str], body: bytes = b"", *, now: float = 0.0) -> str | None:
        """Return why the caller is refused, or None; body and time do not count."""
        is_right = is_same(raw_bytes(headers[self.header]), secret.password)
        return None if is_right else f"the key in the header {self.header} is wrong"


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

    def fault(self, secret: Secret, headers: Mapping[str, str], body: bytes = b"", *, now: float = 0.0) -> str | None:
        """Return why the caller is refused, or None; body and time do not count."""
        given = _decoded(headers["authorization"].partition(" ")[2]) or b""
        expected = f"{secret.login}:{secret.password}"
        return None if is_same(given, expected) else "the user name or the password is wrong"


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


class SignatureMethod(Method):
    """A method by which callers sign the body, by a hash with the secret: none is known before its body is."""

    def signed(self, headers: Mapping[str, str]) -> Signed | str:
        """Return the signatures of a request, or which part of them is missing or malformed."""
        raise NotImplementedError

    def key_of(self, secret: Secret) -> bytes | None:
        """Return the key of the hash; None if the secret is malformed."""
        return secret.password.encode()

    def missing(self, headers: Mapping[str, str]) -> str | None:
        """Return which part of the credentials is missing or malformed, or None."""
        found = self.signed(headers)
        return found if isinstance(found, str) else None

    def fault(self, secret: Secret, headers: Mapping[str, str], body: bytes = b"", *, now: float = 0.0) -> str | None:
        """Return why the caller is refused, or None; `now` is the Unix time."""
        found = self.signed(headers)
        if isinstance(found, str):
            return found
        key = self.key_of(secret)
        if key is None:
            return "the secret of this webhook is not one of Standard Webhooks, which is base64 after whsec_"
        # The signature first: a caller that does not know the secret learns nothing about the time.
        digest = hmac.new(key, found.before, found.algorithm)
        digest.update(body)  # separately: a body of 32 MiB is not copied
        expected = found.written(digest.digest())
        if not any(is_same(raw_bytes(given), expected) for given in found.given):
            return f"no signature in the header {found.header} is the one of this request"
        tolerance: float = getattr(self, "tolerance", _SECONDS)
        if found.time_header is None or _is_near(found.time, now, tolerance):
            return None
        return f"the time in the header {found.time_header} is not within {tolerance:g} s of now"


class Hmac(SignatureMethod):
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
    tolerance: Tolerance = _SECONDS
    """How far the time in `timestamp_header` may be from now."""

    @model_validator(mode="after")
    def _tolerance_has_a_time(self) -> "Hmac":
        # A definition from the database has every field.
        if self.tolerance != _SECONDS and self.timestamp_header is None:
            raise ValueError("expected timestamp_header with tolerance: without a signed time no request is too old.")
        return self

    def signed(self, headers: Mapping[str, str]) -> Signed | str:
        """Return the signature of a request, or what is missing or malformed."""
        given = headers.get(self.header)
        if given is None:
            return f"the header {self.header} with the signature is missing"
        if self.timestamp_header is not None and self.timestamp_header not in headers:
            return f"the header {self.timestamp_header} with the time of the signature is missing"
        time = headers.get(self.timestamp_header or "", "")
        before = b"" if self.timestamp_header is None else raw_bytes(time) + b"."
        form = (self.prefix, self.algorithm, self.encoding)
        found = Signed(self.header, [given], before, self.timestamp_header, time, *form)
        if len(raw_bytes(given)) != len(found.written(hashlib.new(self.algorithm).digest()).encode()):
            return f"the signature in the header {self.header} does not have the length of one by {self.algorithm}"
        return found


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

    def key_of(self, secret: Secret) -> bytes | None:
        """Return the bytes that the secret has in base64; None if it has none."""
        return _decoded(secret.password.removeprefix("whsec_")) or None

    def signed(self, headers: Mapping[str, str]) -> Signed | str:
        """Return the signatures of the version v1, or what is missing; there are two while a secret is replaced."""
        names = [f"{self.header_prefix}-{part}" for part in ("id", "timestamp", "signature")]
        for name in names:
            if not headers.get(name):
                return f"the header {name} of Standard Webhooks is missing"
        id_, time, signatures = (headers[name] for name in names)
        given = [part for part in signatures.split(" ") if _STANDARD_SIGNATURE.fullmatch(part)]
        if not given:
            return f"the header {names[2]} has no signature in the form v1,<base64>"
        before = raw_bytes(f"{id_}.{time}.")
        return Signed(names[2], given, before, names[1], time, "v1,", encoding="base64")


class Stripe(SignatureMethod):
    """The caller is Stripe."""

    type: Literal["stripe"]
    """A signature as Stripe makes it, in the header `Stripe-Signature`. The password of the connection is the signing
    secret of the endpoint, with its `whsec_`."""
    tolerance: Tolerance = _SECONDS
    """How far the time of the signature may be from now."""

    def signed(self, headers: Mapping[str, str]) -> Signed | str:
        """Return the signatures of the scheme v1, or what is missing; there are two while a secret is replaced."""
        if _STRIPE_HEADER not in headers:
            return f"the header {_STRIPE_HEADER} is missing"
        parts = headers[_STRIPE_HEADER].split(",")
        times = [part[2:] for part in parts if part.startswith("t=") and _UNIX_TIME.fullmatch(part[2:])]
        given = [part for part in parts if _STRIPE_SIGNATURE.fullmatch(part)]
        if not (times and given):
            return f"the header {_STRIPE_HEADER} is not in the form t=<time>,v1=<hex>"
        return Signed(_STRIPE_HEADER, given, f"{times[0]}.".encode(), _STRIPE_HEADER, times[0], "v1=")


class Slack(SignatureMethod):
    """The caller is Slack's Events API."""

    type: Literal["slack"]
    """A signature as Slack makes it, in the header `X-Slack-Signature`. The password of the connection is the signing
    secret of the app."""
    tolerance: Tolerance = _SECONDS
    """How far the time of the signature may be from now."""

    def signed(self, headers: Mapping[str, str]) -> Signed | str:
        """Return the signature of a request, or what is missing or malformed."""
        for name, form in ((_SLACK_HEADER, _SLACK_SIGNATURE), (_SLACK_TIME_HEADER, _UNIX_TIME)):
            if name not in headers:
                return f"the header {name} is missing"
            if not form.fullmatch(headers[name]):
                return f"the header {name} is not in the form that Slack sends"
        given, time = [headers[_SLACK_HEADER]], headers[_SLACK_TIME_HEADER]
        return Signed(_SLACK_HEADER, given, f"v0:{time}:".encode(), _SLACK_TIME_HEADER, time, "v0=")

    def challenge(self, body: bytes) -> str | None:
        """Return the challenge by which Slack checks a new URL, from an authenticated body; None for an event."""
        try:
            content = orjson.loads(body)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(content, dict) or content.get("type") != "url_verification":
            return None
        challenge = content.get("challenge")
        return challenge if isinstance(challenge, str) else None


def is_same(given: bytes, expected: str) -> bool:
    """Compare in a time that does not depend on how many characters match."""
    return hmac.compare_digest(given, expected.encode())


def raw_bytes(header: str) -> bytes:
    """Return the bytes of a header as they were sent: ASGI servers decode each byte to a character."""
    return header.encode("latin-1", "replace")


def _decoded(text: str) -> bytes | None:
    try:
        return b64decode(text.strip(), validate=True)
    except ValueError:
        return None


def _is_near(time: str, now: float, tolerance: float) -> bool:
    try:
        # False for NaN as well.
        return abs(now - float(time)) <= tolerance
    except ValueError:
        return False


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
