"""Validates rejected messages again, with the mapping that created their work orders."""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from workorders.core.creation.json_validation import needs_slow_check
from workorders.core.items import Item, Rejection
from workorders.core.json_bytes import bytes_of
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ingest.record_mapping import FILTERED, NO_TIMESTAMP, RecordMapping
from workorders.kafka.partitions import Record

_OMITTED: Final = "omitted_bytes"


def revalidate(
    definition: KafkaTriggerDefinition, registry: Mapping[str, Any] | None, raw: bytes | None, request: bytes
) -> Item:
    """Return the item of a rejected message under the trigger's current definition.

    Raises:
        RegistryUnavailableError: the registry did not answer.
        RegistryRefusedError: the registry refused the client.

    A message whose key and headers were too large stays rejected, because they were not kept. Kafka may still have
    them; the request has the offset. One that the filter leaves out stays rejected with that reason.
    """
    message = orjson.loads(request)
    if _OMITTED in message:
        detail = "key and headers were too large to be kept, so the request cannot be built again"
        return Item(None, None, request, None, Rejection("too-large", detail), raw)
    mapping = RecordMapping.of(definition, registry)
    if mapping.payloads is None:
        item = mapping.validate_value(None, None, request, raw, odd=raw is not None and needs_slow_check(raw))
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
