"""What every authentication method of a webhook has, and the secret that it checks a caller against. Pure."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, Field

from workorders.core.definitions.fields import ConnectionId, Definition, expecting

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


class Method(Definition):
    """Fields and answers of every authentication method."""

    signature_headers: ClassVar[frozenset[str]] = frozenset()
    """Headers that carry signatures in any form of the method, in lower case."""

    connection: ConnectionId
    """Airflow connection that holds the secret: its password, and for `basic` its login as well."""
    previous_connection: ConnectionId | None = None
    """Airflow connection with a second secret, which is accepted as well: the previous one, while callers change to the
    new one."""

    @property
    def scheme(self) -> str:
        """The name of the method in the answer to a caller that has not proved anything."""
        return str(getattr(self, "type", ""))

    @property
    def connections(self) -> tuple[str, ...]:
        """The Airflow connections whose secrets are accepted, the current one first."""
        return tuple(dict.fromkeys(filter(None, (self.connection, self.previous_connection))))

    @property
    def secret_headers(self) -> frozenset[str]:
        """Headers that carry the credentials, in lower case; they are never stored."""
        return frozenset({"authorization", getattr(self, "header", "authorization")}) | self.signature_headers

    @property
    def key_header(self) -> str:
        """Header with which a caller identifies its event, in lower case."""
        return KEY_HEADER

    def proves(self, selector: str) -> bool:
        """Return whether only an authenticated caller can have chosen the value that `selector` picks.

        Every caller that knows a secret of the webhook may see the results of all.
        """
        del selector
        return True

    def missing(self, headers: Mapping[str, str]) -> str | None:
        """Return which part of the credentials is missing or malformed, or None.

        `headers` has the first value of each, by name in lower case.
        """
        raise NotImplementedError


class SignatureMethod(Method):
    """A method by which callers sign the body, so that a caller is not known before its body is."""

    def proves(self, selector: str) -> bool:
        """Return whether the signature covers the value that `selector` picks."""
        source, _, place = selector.partition(":")
        if source == "body":
            return True
        name = self.key_header if source == "key" else place.lower() if source == "header" else None
        return name is not None and name in self.proved_headers

    @property
    def proved_headers(self) -> frozenset[str]:
        """Headers that the signature covers, in lower case."""
        return frozenset()

    def fault(
        self, secret: Secret, headers: Mapping[str, str], body: bytes = b"", *, path: str = "", now: float = 0.0
    ) -> str | None:
        """Return why the caller is refused, or None; `now` is the Unix time, and names of headers are in lower case."""
        raise NotImplementedError

    def challenge(self, body: bytes) -> str | None:
        """Return what the sender wants back before it sends events, from an authenticated body; None for an event."""
        del body
        return None


def is_same(given: bytes, expected: str) -> bool:
    """Compare in a time that does not depend on how many characters match."""
    return hmac.compare_digest(given, expected.encode())


def raw_bytes(header: str) -> bytes:
    """Return the bytes of a header as they were sent: ASGI servers decode each byte to a character."""
    return header.encode("latin-1", "replace")


def is_near(time: str, now: float, tolerance: float) -> bool:
    """Return whether a text is a Unix time in seconds and at most `tolerance` seconds from `now`, before or after."""
    try:
        # False for NaN as well.
        return abs(now - float(time)) <= tolerance
    except ValueError:
        return False
