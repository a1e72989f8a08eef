"""Authentication methods of a webhook: their fields in a trigger file, and their checks. Pure."""

import hashlib
import hmac
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from workorders.core.definitions.fields import ConnectionId, Definition, expecting, seconds

KEY_HEADER: Final = "idempotency-key"
"""Header with which a caller identifies its event."""
HeaderName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"),
    AfterValidator(str.lower),
    expecting("the name of a header such as X-Signature"),
]


@dataclass(frozen=True, slots=True)
class Secret:
    """The secret of an Airflow connection; never printed."""

    login: str = field(repr=False)
    password: str = field(repr=False)


class _Method(Definition):
    connection: ConnectionId
    """Airflow connection that holds the secret: its password, and for `basic` its login as well."""

    @property
    def secret_headers(self) -> frozenset[str]:
        """Headers that carry the credentials, in lower case; they are never stored."""
        return frozenset({"authorization", getattr(self, "header", "authorization")})

    def proves(self, selector: str) -> bool:
        """Return whether only an authenticated caller can have chosen the value that `selector` picks.

        A webhook has one secret, so every caller that knows it may see the results of all.
        """
        del selector
        return True


class ApiKey(_Method):
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
        return self.missing(headers) or (None if _same(_raw(headers[self.header]), secret.password) else wrong)


class Basic(_Method):
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
        return None if _same(given, expected) else "the user name or the password is wrong"


class Hmac(_Method):
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
    """How far (seconds) the time in `timestamp_header` may be from now."""
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

    def proves(self, selector: str) -> bool:
        """Return whether the signature covers the value that `selector` picks."""
        source, _, place = selector.partition(":")
        if source == "body":
            return True
        name = KEY_HEADER if source == "key" else place.lower() if source == "header" else None
        return name is not None and name in (self.signed_headers or ())

    def missing(self, headers: Mapping[str, str]) -> str | None:
        """Return which part of the credentials is missing or malformed, or None."""
        given = headers.get(self.header)
        if given is None:
            return f"the header {self.header} with the signature is missing"
        if self.timestamp_header is not None and self.timestamp_header not in headers:
            return f"the header {self.timestamp_header} with the time of the signature is missing"
        if len(_raw(given)) != len((self.prefix + self._encoded(hashlib.new(self.algorithm).digest())).encode()):
            return f"the signature in the header {self.header} does not have the length of one by {self.algorithm}"
        return None

    def fault(
        self, secret: Secret, headers: Mapping[str, str], body: bytes = b"", *, path: str = "", now: float = 0.0
    ) -> str | None:
        """Return why the caller is refused, or None.

        Args:
            secret: the webhook's.
            headers: the first value of each, by name in lower case.
            body: all of it.
            path: of the webhook, as in its definition.
            now: the Unix time in seconds.
        """
        if missing := self.missing(headers):
            return missing
        # The signature first: a caller that does not know the secret learns nothing about the time.
        if not _same(_raw(headers[self.header]), self.prefix + self.signature(secret, headers, body, path=path)):
            return f"the signature in the header {self.header} is not the one of this request"
        return self._too_old(headers, now)

    def signature(self, secret: Secret, headers: Mapping[str, str], body: bytes, *, path: str = "") -> str:
        """Return the signature of a request in the form of its header, without the prefix."""
        digest = hmac.new(secret.password.encode(), self._before_body(headers, path), self.algorithm)
        digest.update(body)  # on its own: a body of 32 MiB is not copied
        return self._encoded(digest.digest())

    def _before_body(self, headers: Mapping[str, str], path: str) -> bytes:
        time = b"" if self.timestamp_header is None else _raw(headers[self.timestamp_header]) + b"."
        if self.signed_headers is None:
            return time
        # A missing header is signed as an empty one, so that it cannot be removed or added.
        lines = (_raw(f"{name}:{headers.get(name, '')}") for name in self.signed_headers)
        return time + b"".join(line + b"\n" for line in (path.encode(), *lines))

    def _encoded(self, digest: bytes) -> str:
        return digest.hex() if self.encoding == "hex" else b64encode(digest).decode()

    def _too_old(self, headers: Mapping[str, str], now: float) -> str | None:
        if self.timestamp_header is None:
            return None
        try:
            time = float(headers[self.timestamp_header])
        except ValueError:
            time = math.nan
        # Written so that NaN is refused as well.
        if abs(now - time) <= self.tolerance:
            return None
        return (
            f"the time in the header {self.timestamp_header} is not a Unix time in seconds within "
            f"{self.tolerance:g} s of now"
        )


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
    | Annotated[Hmac, Tag("hmac")],
    # The wrong value is not repeated: it may be a secret that belongs into a connection.
    Discriminator(
        _kind,
        custom_error_type="value_error",
        custom_error_context={"error": "expected public, or a mapping with the type api_key, basic or hmac."},
    ),
]


def _decoded(credentials: str) -> bytes | None:
    try:
        return b64decode(credentials.strip(), validate=True)
    except ValueError:
        return None


def _same(given: bytes, expected: str) -> bool:
    """Compare in a time that does not depend on how many characters match."""
    return hmac.compare_digest(given, expected.encode())


def _raw(header: str) -> bytes:
    """Return the bytes of a header as they were sent: ASGI servers decode each byte to a character."""
    return header.encode("latin-1", "replace")
