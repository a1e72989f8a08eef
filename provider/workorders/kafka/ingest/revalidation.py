"""Validates rejected messages again, with the mapping that created their work orders."""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from workorders.core.creation.json_validation import needs_slow_check
from workorders.core.items import Item, Rejection
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ingest.record_mapping import FILTERED, RecordMapping

_OMITTED: Final = "omitted_bytes"


def revalidate(definition: Mapping[str, Any], raw: bytes | None, request: bytes) -> Item:
    """Return the item of a rejected message under the trigger's current definition.

    A message whose key and headers were too large stays rejected, because they were not kept. Kafka may still have
    them; the request has the offset. One that the filter leaves out stays rejected with that reason.
    """
    if _OMITTED in orjson.loads(request):
        detail = "key and headers were too large to be kept, so the request cannot be built again"
        return Item(None, None, request, None, Rejection("too-large", detail), raw)
    mapping = RecordMapping.of(KafkaTriggerDefinition.model_validate(definition))
    item = mapping.validate_value(None, None, request, raw, raw is not None and needs_slow_check(raw))
    if mapping.filter is not None and not mapping.filter.holds(mapping.filter.conditions, request, item):
        return Item(None, None, request, None, FILTERED, raw)
    return item
