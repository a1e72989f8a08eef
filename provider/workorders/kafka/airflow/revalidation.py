"""Validates rejected messages again, where their formats may need the schema registry of an Airflow connection."""

from collections.abc import Mapping
from typing import Any

import orjson

from workorders.core.items import Item, Rejection
from workorders.core.json_bytes import bytes_of
from workorders.kafka.client.secrets import REGISTRY_VARIABLE, settings_from_environment
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ingest.record_mapping import FILTERED, NO_TIMESTAMP, RecordMapping
from workorders.kafka.partitions import Record


def revalidate(definition: Mapping[str, Any], raw: bytes | None, request: bytes) -> Item:
    """Return the item of a rejected message under the trigger's current definition, as `Revalidator` describes it.

    A message whose key and headers were too large stays rejected, because they were not kept. Kafka may still have
    them; the request has the offset. One that the filter leaves out stays rejected with that reason.

    Raises:
        RegistryError: the schema registry did not answer, or refused the client.
    """
    loaded = KafkaTriggerDefinition.model_validate(definition)
    registry: Mapping[str, Any] | None = None
    if loaded.registry_connection is not None:
        registry = settings_from_environment(REGISTRY_VARIABLE)
        if registry is None:
            # Airflow is an extra, and most triggers need none here.
            from workorders.kafka.airflow.connections import registry_settings  # noqa: PLC0415

            registry = registry_settings(loaded.registry_connection)
    mapping, message = RecordMapping.of(loaded, registry), orjson.loads(request)
    if "omitted_bytes" in message:
        detail = "key and headers were too large to be kept, so the request cannot be built again"
        return Item(None, None, request, None, Rejection("too-large", detail), raw)
    if mapping.payloads is None:
        item = mapping.validate_value(None, None, request, raw)
    else:
        source, key = (message["topic"], message["partition"], message["offset"]), bytes_of(message["key"])
        headers = [(name, bytes_of(value)) for name, value in message["headers"] if isinstance(name, str)]
        # As the mapping writes it, while Postgres adds white space.
        written = orjson.dumps({"key": message["key"], **message})
        record = Record(*source, key, raw, None, NO_TIMESTAMP, headers)
        item = mapping.map_decoded(mapping.payloads, record, None, written)
    if mapping.filter is not None and not mapping.filter.holds(request, item):
        return Item(None, None, request, None, FILTERED, raw)
    return item
