"""The formats of a trigger's keys and values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import orjson

from workorders.core.exceptions import ConfigurationError
from workorders.core.items import Rejection

CLOUDEVENTS: Final = "cloudevents"
"""The format of values that are read together with their headers, and need no registry."""

if TYPE_CHECKING:
    from workorders.kafka.definition.trigger import KafkaTriggerDefinition


Headers = Sequence[tuple[str | bytes, bytes | None]]


class Decoded(NamedTuple):
    """A key or a value as JSON."""

    json: bytes
    schema: bytes | None = None
    """Id, subject, and version of its schema in the registry, as a JSON object; None without a registry."""


class Decoder(Protocol):
    """Makes JSON of keys or values."""

    def decode(self, topic: str, payload: bytes, headers: Headers = ()) -> Decoded | Rejection:
        """Return a payload of a topic as JSON, or why that cannot be."""


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
        settings = None if registry is None else orjson.dumps(dict(registry), option=orjson.OPT_SORT_KEYS).decode()
        schema = None if definition.json_schema is None else orjson.dumps(definition.json_schema).decode()
        found = cls(definition.format, definition.key_format, settings, schema)
        return found if found.decodes_values or found.decodes_keys else None

    @property
    def decodes_values(self) -> bool:
        """Whether a value is more than JSON that is taken as it is."""
        return self.value != "json" or self.json_schema is not None

    @property
    def decodes_keys(self) -> bool:
        """Whether a key is more than a text."""
        return self.key != "text"

    @property
    def needs_headers(self) -> bool:
        """Whether a value is decoded by its headers."""
        return self.value == CLOUDEVENTS

    def decode_value(self, topic: str, payload: bytes | None, headers: Headers) -> Decoded | Rejection | None:
        """Return a value as JSON, or why that cannot be; None for a null value that stays one.

        Raises:
            RegistryUnavailableError: the registry did not answer.
            RegistryRefusedError: the registry refused the client.
        """
        if self.needs_headers:
            return _events(topic, payload, headers)
        if payload is None:
            return None
        return _decoder(self.value, "value", self.registry, self.json_schema).decode(topic, payload)

    def decode_key(self, topic: str, payload: bytes) -> Decoded | Rejection:
        """Return a key as JSON, or why that cannot be; raises as `decode_value` does."""
        return _decoder(self.key, "key", self.registry, None).decode(topic, payload)


def _events(topic: str, payload: bytes | None, headers: Headers) -> Decoded | Rejection | None:
    from workorders.kafka.formats.cloudevents import CloudEventsDecoder  # noqa: PLC0415 - few triggers need it

    found = CloudEventsDecoder().decode(topic, payload, headers)
    # A null value without an event in its headers is a tombstone.
    return None if payload is None and isinstance(found, Rejection) else found


@cache
def _decoder(format_: str, part: str, registry: str | None, json_schema: str | None) -> Decoder:
    """Return a decoder of this process: schemas never change under their id, so they are parsed once."""
    # What one format needs is an extra of the package; another format does without it.
    from workorders.kafka.formats.decoders import RegistryDecoder  # noqa: PLC0415
    from workorders.kafka.formats.registry import SchemaRegistry  # noqa: PLC0415

    if registry is None or format_ == "json":
        from workorders.kafka.formats.json_schema import FileSchemaDecoder  # noqa: PLC0415

        return FileSchemaDecoder(json_schema or "true")
    if format_ == "avro":
        from workorders.kafka.formats.avro import parse  # noqa: PLC0415
    elif format_ == "protobuf":
        from workorders.kafka.formats.protobuf import parse  # noqa: PLC0415
    else:
        from workorders.kafka.formats.json_schema import parse  # noqa: PLC0415
    return RegistryDecoder(SchemaRegistry(orjson.loads(registry)), parse, part)
