"""The formats of a trigger's keys and values."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import orjson

from workorders.core.exceptions import ConfigurationError
from workorders.core.items import Rejection
from workorders.kafka.definition.formats import FORMATS
from workorders.kafka.exceptions import RegistryError
from workorders.kafka.formats.decoded import (
    BAD_BYTES,
    Budget,
    Decoded,
    Decoder,
    Headers,
    OverBudgetError,
    RefusedPayloadError,
)
from workorders.kafka.partitions import DEFAULT_MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from workorders.kafka.definition.trigger import KafkaTriggerDefinition


@dataclass(frozen=True, repr=False)
class Payloads:
    """What decodes the keys and values of one trigger.

    It is pickled for the executors, where each process makes its decoders once. Without a repr, because it may have the
    registry's password.
    """

    value: str
    key: str
    registry: str | None = None
    """Settings of the registry's client, as JSON; None without a registry."""
    json_schema: str | None = None
    """The JSON Schema of plain JSON values, as JSON."""
    max_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    """Maximum size of a key or a value as JSON."""

    @classmethod
    def of(cls, definition: "KafkaTriggerDefinition", registry: Mapping[str, Any] | None) -> "Payloads | None":
        """Return the formats of a definition; None for keys and values that are taken as they are.

        Raises:
            ConfigurationError: a format needs a registry, and there are no settings of one.
        """
        if definition.registry_connection is not None and registry is None:
            raise ConfigurationError(
                f"Trigger {definition.name} decodes by schemas of the connection {definition.registry_connection}, "
                f"and this process has no settings of it; nothing was read. Define the connection, or set "
                f"WORKORDERS_SCHEMA_REGISTRY."
            )
        if (definition.format, definition.key_format, definition.json_schema) == ("json", "text", None):
            return None
        settings = None if registry is None else orjson.dumps(dict(registry), option=orjson.OPT_SORT_KEYS).decode()
        schema = None if definition.json_schema is None else orjson.dumps(definition.json_schema).decode()
        return cls(definition.format, definition.key_format, settings, schema, definition.max_message_bytes)

    def decode_value(self, payload: bytes | None, headers: Headers) -> Decoded | Rejection | None:
        """Return a value as JSON, or why that cannot be; None for one that is taken as it is, such as a null value.

        Raises:
            RegistryError: the registry did not answer, or refused the client.
        """
        if (self.value, self.json_schema) == ("json", None):
            return None
        if payload is None and not FORMATS[self.value].reads_headers:
            return None
        decoder = _decoder(self.value, "value", self.registry, self.json_schema)
        found = decode(decoder, "value", payload, headers, self.max_bytes)
        # A null value without an event in its headers is a tombstone.
        return None if payload is None and isinstance(found, Rejection) else found

    def decode_key(self, payload: bytes) -> Decoded | Rejection:
        """Return a key as JSON, or why that cannot be; raises as `decode_value` does."""
        return decode(_decoder(self.key, "key", self.registry, None), "key", payload, (), self.max_bytes)


_PANIC: Final = "PanicException"
"""What a library in Rust raises at its own bug; it is no `Exception`, and no module has it."""


def decode(decoder: Decoder, kind: str, payload: bytes | None, headers: Headers, max_bytes: int) -> Decoded | Rejection:
    """Return a key or a value as JSON, or why that cannot be: whatever a decoder raises is a rejection.

    Raises:
        RegistryError: the registry did not answer, or refused the client.
    """
    size = len(payload or b"")
    for _, value in headers:
        size += len(value or b"")
    budget = Budget(size, max_bytes)
    try:
        found = decoder.decode(payload, headers, budget)
        if isinstance(found, Decoded) and len(found.json) > budget.max_bytes:
            raise OverBudgetError
        return found
    except RegistryError:
        raise
    except OverBudgetError:
        clause = f"as JSON, it has more than {budget.max_bytes} bytes; the sender must split it"
        return Rejection("too-large", f"the {kind} violates {decoder.rule(payload)}: {clause}")
    except RefusedPayloadError as refused:
        return Rejection(refused.code, f"the {kind} violates {decoder.rule(payload)}: {refused}")
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
            raise
        clause = f"the {kind} violates {decoder.rule(payload)} ({type(error).__name__}); {BAD_BYTES}"
        return Rejection("undecodable", clause)


@cache
def _decoder(format_: str, kind: str, registry: str | None, json_schema: str | None) -> Decoder:
    """Return a decoder of this process: schemas never change under their id, so they are parsed once."""
    # What one format needs is an extra of the package; another format does without it.
    found = FORMATS[format_]
    module = import_module(found.module)
    if registry is None or not found.has_registry:
        decoder: Decoder = module.make_decoder(json_schema)
        return decoder
    from workorders.kafka.formats.registry import RegistryDecoder, SchemaRegistry  # noqa: PLC0415

    made = RegistryDecoder(SchemaRegistry(orjson.loads(registry)), module.parse, kind, found.registry_format)
    return Decoder(made.decode, made.rule)
