"""What a decoder makes of a key or a value, and how it refuses one."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from workorders.core.items import Rejection

Headers = Sequence[tuple[str | bytes, bytes | None]]
_MAX_NAME: Final = 256
_MAX_PATH: Final = 200
_FREE: Final = 64 * 1024
_BYTES_PER_BYTE: Final = 1000

BAD_BYTES: Final = "the sender must write by the schema whose id it sends"
BAD_VALUE: Final = "the sender must correct the value"


class Decoded(NamedTuple):
    """A key or a value as JSON."""

    json: bytes
    schema: bytes | None = None
    """The id of its schema in the registry, as a JSON object; None without a registry."""


class Budget:
    """What a message may become as JSON: bytes in proportion to its own."""

    __slots__ = ("_left", "max_bytes")

    def __init__(self, payload_bytes: int, max_bytes: int) -> None:
        self.max_bytes = self._left = min(max_bytes, _FREE + _BYTES_PER_BYTE * payload_bytes)

    def spend(self, size: int) -> None:
        """Count bytes before they are made.

        Raises:
            OverBudgetError: there are too many.
        """
        self._left -= size
        if self._left < 0:
            raise OverBudgetError


class Decoder(NamedTuple):
    """Makes JSON of keys or values: of bytes, or of None where headers are read."""

    decode: Callable[[Any, Headers, Budget], Decoded | Rejection]
    """Returns a payload as JSON, or why that cannot be. It may raise anything; `Payloads` makes rejections of it."""
    rule: Callable[[Any], str]
    """Returns the name of what a payload must fulfill."""


ReadPayload = Callable[[bytes, Budget], bytes]
"""Returns a payload as JSON. Raises `RefusedPayloadError`, or anything else if the bytes are malformed."""
ParseSchema = Callable[[dict[str, str]], ReadPayload]
"""Takes the texts of a schema as `SchemaRegistry.texts` returns them, and returns what reads payloads by it. Raises
anything if the schema cannot be used."""


class OverBudgetError(ValueError):
    """A payload would be far more JSON than its bytes."""


class RefusedPayloadError(ValueError):
    """A payload breaks its schema, or cannot be JSON unchanged; the text is a clause that contains no data."""

    def __init__(self, clause: str, code: str = "undecodable") -> None:
        super().__init__(clause)
        self.code = code

    @classmethod
    def at(cls, path: str, clause: str, remedy: str) -> "RefusedPayloadError":
        """Return the error of a value that cannot be JSON without being changed, and what the sender can do.

        The path is a JSON Pointer into the result, with `*` for the key of a map, which is data. Each rejection stores
        it, so of a long one the end is kept.
        """
        shown = path if len(path) <= _MAX_PATH else f"...{path[-_MAX_PATH:]}"
        return cls(f"{shown or 'it'} {clause}; {remedy}")


class UnsafeSchemaError(ValueError):
    """A schema is not one that payloads can be read by; the text is a clause."""


def require_short(names: Iterable[str]) -> None:
    """Check the names of a schema, which each value of it repeats.

    Raises:
        UnsafeSchemaError: one is very long.
    """
    if any(len(name) > _MAX_NAME for name in names):
        raise UnsafeSchemaError(f"it has a name of more than {_MAX_NAME} characters")
