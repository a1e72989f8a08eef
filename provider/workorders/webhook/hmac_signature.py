"""The signature of a sender whose form the webhook's file describes. Pure."""

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import model_validator

from workorders.core.definitions.fields import expecting, seconds
from workorders.webhook.method import KEY_HEADER, HeaderName, Secret, SignatureMethod, is_near, is_same, raw_bytes


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

    def missing(self, headers: Mapping[str, str]) -> str | None:
        """Return which part of the credentials is missing or malformed, or None."""
        given = headers.get(self.header)
        if given is None:
            return f"the header {self.header} with the signature is missing"
        if self.timestamp_header is not None and self.timestamp_header not in headers:
            return f"the header {self.timestamp_header} with the time of the signature is missing"
        if len(raw_bytes(given)) != len((self.prefix + self._encoded(hashlib.new(self.algorithm).digest())).encode()):
            return f"the signature in the header {self.header} does not have the length of one by {self.algorithm}"
        return None

    def fault(
        self, secret: Secret, headers: Mapping[str, str], body: bytes = b"", *, path: str = "", now: float = 0.0
    ) -> str | None:
        """Return why the caller is refused, or None; see SignatureMethod.fault."""
        if missing := self.missing(headers):
            return missing
        # The signature first: a caller that does not know the secret learns nothing about the time.
        if not is_same(raw_bytes(headers[self.header]), self.prefix + self.signature(secret, headers, body, path=path)):
            return f"the signature in the header {self.header} is not the one of this request"
        if self.timestamp_header is None or is_near(headers[self.timestamp_header], now, self.tolerance):
            return None
        return (
            f"the time in the header {self.timestamp_header} is not a Unix time in seconds within "
            f"{self.tolerance:g} s of now"
        )

    def signature(self, secret: Secret, headers: Mapping[str, str], body: bytes, *, path: str = "") -> str:
        """Return the signature of a request in the form of its header, without the prefix."""
        digest = hmac.new(secret.password.encode(), self._before_body(headers, path), self.algorithm)
        digest.update(body)  # on its own: a body of 32 MiB is not copied
        return self._encoded(digest.digest())

    def _before_body(self, headers: Mapping[str, str], path: str) -> bytes:
        time = b"" if self.timestamp_header is None else raw_bytes(headers[self.timestamp_header]) + b"."
        if self.signed_headers is None:
            return time
        # A missing header is signed as an empty one, so that it cannot be removed or added.
        lines = (raw_bytes(f"{name}:{headers.get(name, '')}") for name in self.signed_headers)
        return time + b"".join(line + b"\n" for line in (path.encode(), *lines))

    def _encoded(self, digest: bytes) -> str:
        return digest.hex() if self.encoding == "hex" else b64encode(digest).decode()
