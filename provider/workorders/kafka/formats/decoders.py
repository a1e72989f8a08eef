"""From the bytes of a key or a value to JSON. No bytes raise an exception here but those of a registry's absence."""

import time
from collections.abc import Callable
from typing import Final

from workorders.core.creation.foreign_bytes import recognize
from workorders.core.items import Rejection
from workorders.kafka.formats.decoded import (
    BAD_BYTES,
    Decoded,
    Headers,
    ReadPayload,
    RefusedPayloadError,
    UnsafeSchemaError,
)
from workorders.kafka.formats.registry import SchemaRegistry, UnknownSchemaError

ParseSchema = Callable[[SchemaRegistry, int], ReadPayload]
"""Gets a schema, and returns what reads payloads by it. Raises `UnsafeSchemaError` if it cannot be used."""

_MAGIC: Final = 0
_HEADER_BYTES: Final = 5
_UNKNOWN_SECONDS: Final = 60.0
"""An id that the registry does not know is asked for again only after this time."""


class RegistryDecoder:
    """Decodes payloads that begin with the id of their schema: a zero byte, and four bytes of the id."""

    def __init__(self, registry: SchemaRegistry, parse: ParseSchema, kind: str) -> None:
        """Decode the `key` or the `value` of messages."""
        self._registry = registry
        self._parse = parse
        self._kind = kind
        self._readers: dict[int, ReadPayload | Rejection] = {}
        self._registrations: dict[tuple[int, str], bytes] = {}
        self._unknown: dict[int, float] = {}

    def decode(self, topic: str, payload: bytes, _headers: Headers = ()) -> Decoded | Rejection:
        """Return a payload of a topic as JSON, or why that cannot be.

        Raises:
            RegistryUnavailableError: the registry did not answer.
            RegistryRefusedError: the registry refused the client.
        """
        schema_id = int.from_bytes(payload[1:_HEADER_BYTES], "big")
        if len(payload) < _HEADER_BYTES or payload[0] != _MAGIC or schema_id == 0:
            return _without_id(self._kind, payload)
        read = self._readers.get(schema_id) or self._reader(schema_id)
        if isinstance(read, Rejection):
            return read
        violated = f"the {self._kind} violates schema {schema_id}"
        try:
            json = read(payload[_HEADER_BYTES:])
        except RefusedPayloadError as refused:
            return Rejection(refused.code, f"{violated}: {refused}")
        except Exception as error:  # noqa: BLE001 - decoders raise what their code happens to meet in hostile bytes
            return Rejection("undecodable", f"{violated} ({type(error).__name__}); {BAD_BYTES}")
        registration = self._registrations.get((schema_id, topic)) or self._registration(schema_id, topic)
        return Decoded(json, registration)

    def _reader(self, schema_id: int) -> ReadPayload | Rejection:
        unknown = Rejection("unknown-schema", f"the registry does not have schema {schema_id} of the {self._kind}")
        if time.monotonic() < self._unknown.get(schema_id, 0.0):
            return unknown
        try:
            found: ReadPayload | Rejection = self._parse(self._registry, schema_id)
        except UnknownSchemaError:
            self._unknown[schema_id] = time.monotonic() + _UNKNOWN_SECONDS
            return unknown
        except UnsafeSchemaError as error:
            found = Rejection("unusable-schema", f"schema {schema_id} of the {self._kind} cannot be used: {error}")
        self._readers[schema_id] = found
        return found

    def _registration(self, schema_id: int, topic: str) -> bytes:
        found = self._registry.registration(schema_id, f"{topic}-{self._kind}")
        self._registrations[schema_id, topic] = found
        return found


def _without_id(kind: str, payload: bytes) -> Rejection:
    found = recognize(payload)
    if payload.lstrip().startswith((b"{", b"[")):
        found = f"JSON: set {'format: json' if kind == 'value' else 'key_format: text'} in the trigger"
    lacking = f"the {kind} does not begin with a zero byte and the four bytes of a schema's id"
    return Rejection("no-schema-id", lacking if found is None else f"{lacking}; it is {found}")
