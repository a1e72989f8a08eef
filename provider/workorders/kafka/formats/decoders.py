"""From the bytes of a key or a value to JSON, by the schema of a registry whose id they begin with."""

import time
from collections import OrderedDict
from typing import Final, NamedTuple

from workorders.core.creation.json_validation import recognize
from workorders.core.items import Rejection
from workorders.kafka.exceptions import RegistryError
from workorders.kafka.formats.decoded import Budget, Decoded, Headers, ParseSchema, ReadPayload, UnsafeSchemaError
from workorders.kafka.formats.registry import SchemaRegistry, UnknownSchemaError

MAX_UNKNOWN: Final = 20
"""Senders choose the ids, and each is a request."""
_UNKNOWN_SECONDS: Final = 60.0
_MAX_KEPT_CHARACTERS: Final = 8 * 1024 * 1024
"""Of the schemas of a decoder: one may take a hundred times as many bytes."""
_MIN_CHARACTERS: Final = 4096
"""Counted for a shorter schema, which takes as many bytes, or for one that cannot be used."""
_MAGIC: Final = 0
_HEADER_BYTES: Final = 5


class _UnknownIds:
    """Ids that no registry had when this process asked, for a minute."""

    def __init__(self) -> None:
        self._faults: dict[tuple[RegistryDecoder, int], str] = {}
        self._until = 0.0

    def fault(self, decoder: "RegistryDecoder", schema_id: int) -> str | None:
        """Return why the registry need not be asked for an id, as a clause without its subject."""
        if time.monotonic() >= self._until:
            self._faults.clear()
        if len(self._faults) < MAX_UNKNOWN or (decoder, schema_id) in self._faults:
            return self._faults.get((decoder, schema_id))
        return f"did not have {MAX_UNKNOWN} other schemas within a minute and was not asked for"

    def add(self, decoder: "RegistryDecoder", schema_id: int, fault: str) -> None:
        """Remember an id."""
        if not self._faults:
            self._until = time.monotonic() + _UNKNOWN_SECONDS
        self._faults[decoder, schema_id] = fault


unknown_ids: Final = _UnknownIds()


class _Known(NamedTuple):
    """What is kept of a schema."""

    read: ReadPayload | Rejection
    characters: int = _MIN_CHARACTERS


class RegistryDecoder:
    """Decodes payloads that begin with the id of their schema: a zero byte, and four bytes of the id."""

    def __init__(self, registry: SchemaRegistry, parse: ParseSchema, kind: str, fmt: str | None = None) -> None:
        """Decode the `key` or the `value` of messages, by schemas that the registry gives in this format."""
        self._registry = registry
        self._parse = parse
        self._kind = kind
        self._fmt = fmt
        self._known: OrderedDict[int, _Known] = OrderedDict()
        self._characters = 0

    def rule(self, payload: bytes) -> str:
        """Return which schema a payload names."""
        return f"schema {_schema_id(payload)}"

    def decode(self, payload: bytes, _headers: Headers, budget: Budget) -> Decoded | Rejection:
        """Return a payload as JSON, or why that cannot be.

        Raises:
            RegistryError: the registry did not answer, or refused the client.
        """
        schema_id = _schema_id(payload)
        if len(payload) < _HEADER_BYTES or payload[0] != _MAGIC or schema_id == 0:
            return _without_id(self._kind, payload)
        known = self._known.get(schema_id) or self._ask(schema_id)
        if isinstance(known.read, Rejection):
            return known.read
        return Decoded(known.read(payload[_HEADER_BYTES:], budget), b'{"id":%d}' % schema_id)

    def _ask(self, schema_id: int) -> _Known:
        fault = unknown_ids.fault(self, schema_id)
        try:
            if fault is None:
                texts = self._registry.texts(schema_id, self._fmt)
                characters = max(sum(map(len, texts.values())), _MIN_CHARACTERS)
                return self._keep(schema_id, _Known(self._parse(texts), characters))
        except RegistryError:
            raise
        except UnknownSchemaError as error:
            fault = str(error)
            unknown_ids.add(self, schema_id, fault)
        except Exception as error:  # noqa: BLE001 - parsers raise what their code happens to meet in hostile schemas
            clause = error if isinstance(error, UnsafeSchemaError) else f"it is malformed ({type(error).__name__})"
            unusable = Rejection("unusable-schema", f"schema {schema_id} of the {self._kind} cannot be used: {clause}")
            return self._keep(schema_id, _Known(unusable))
        return _Known(Rejection("unknown-schema", f"the registry {fault} schema {schema_id} of the {self._kind}"))

    def _keep(self, schema_id: int, known: _Known) -> _Known:
        self._known[schema_id] = known
        self._characters += known.characters
        while self._characters > _MAX_KEPT_CHARACTERS:
            self._characters -= self._known.popitem(last=False)[1].characters
        return known


def _schema_id(payload: bytes) -> int:
    return int.from_bytes(payload[1:_HEADER_BYTES], "big")


def _without_id(kind: str, payload: bytes) -> Rejection:
    found = recognize(payload)
    if payload.lstrip().startswith((b"{", b"[")):
        found = f"JSON: set {'format: json' if kind == 'value' else 'key_format: text'} in the trigger"
    lacking = f"the {kind} does not begin with a zero byte and the four bytes of a schema's id"
    return Rejection("no-schema-id", lacking if found is None else f"{lacking}; it is {found}")
