"""The formats of keys and values: one row each, and a module in `kafka/formats`."""

from typing import Final, NamedTuple


class Format(NamedTuple):
    """What a format of keys or values needs."""

    module: str
    """The module that reads it. With a registry it has `parse`, and otherwise `make_decoder`."""
    has_registry: bool = False
    """Whether a schema registry has its schemas. Such a format is one of keys as well."""
    registry_format: str | None = None
    """What the registry is asked to return its schemas in, if it can."""
    reads_headers: bool = False
    """Whether a value is read together with the headers of its message, also if it is null."""


FORMATS: Final = {
    "json": Format("workorders.kafka.formats.json_schema"),
    "cloudevents": Format("workorders.kafka.formats.cloudevents", reads_headers=True),
    "avro": Format("workorders.kafka.formats.avro", has_registry=True),
    "protobuf": Format("workorders.kafka.formats.protobuf", has_registry=True, registry_format="serialized"),
    "json_schema": Format("workorders.kafka.formats.json_schema", has_registry=True),
}
REGISTRY_FORMATS: Final = tuple(name for name, format_ in FORMATS.items() if format_.has_registry)
