"""Trigger definitions with nothing but what a test cares about."""

from typing import Any

from workorders.kafka.definition.trigger import KafkaTriggerDefinition


def define(name: str, **fields: Any) -> KafkaTriggerDefinition:
    """Return a definition that reads the topic of the trigger's own name, and does not grow, unless told otherwise."""
    given = {"name": name, "workflow": "admit", "topics": [name], "linger": 0, **fields}
    return KafkaTriggerDefinition.model_validate(given)
