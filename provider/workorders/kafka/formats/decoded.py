"""What a decoder makes of a key or a value, and how it refuses one."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from workorders.core.items import Rejection

Headers = Sequence[tuple[str | bytes, bytes | None]]
ReadPayload = Callable[[bytes], bytes]
"""Returns a payload as JSON. Raises `RefusedPayloadError`, or anything else if the bytes are malformed."""

BAD_BYTES: Final = "the sender must write by the schema whose id it sends"
BAD_VALUE: Final = "the sender must correct the value"


class Decoded(NamedTuple):
    """A key or a value as JSON."""

    json: bytes
    schema: bytes | None = None
    """Id, subject, and version of its schema in the registry, as a JSON object; None without a registry."""


class Decoder(Protocol):
    """Makes JSON of keys or values."""

    def decode(self, topic: str, payload: Any, headers: Headers = ()) -> Decoded | Rejection:
        """Return a payload of a topic as JSON, or why that cannot be: bytes, or None where headers are read."""


class RefusedPayloadError(ValueError):
    """A payload breaks its schema; the text is a clause that contains no data."""

    def __init__(self, clause: str, code: str = "schema-violated") -> None:
        """Keep the reason of the rejection."""
        super().__init__(clause)
        self.code = code

    @classmethod
    def at(cls, path: str, clause: str, remedy: str) -> "RefusedPayloadError":
        """Return the error of a value that cannot be JSON without being changed.

        Args:
            path: of the value, as a JSON Pointer into the result, with `*` for the key of a map, which is data.
            clause: what is wrong with the value.
            remedy: what the sender can do.
        """
        return cls(f"{path or 'it'} {clause}; {remedy}", "undecodable")


class UnsafeSchemaError(ValueError):
    """A schema is not one that payloads can be read by; the text is a clause."""
