"""Validates rejected messages again, where their formats may need the schema registry of an Airflow connection."""

from collections.abc import Mapping
from typing import Any

from workorders.core.items import Item
from workorders.kafka.client.secrets import registry_from_environment
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.ingest import revalidation


def revalidate(definition: Mapping[str, Any], raw: bytes | None, request: bytes) -> Item:
    """Return the item of a rejected message under the trigger's current definition, as `Revalidator` describes it.

    Raises:
        RegistryUnavailableError: the schema registry did not answer.
        RegistryRefusedError: the schema registry refused the client.
    """
    loaded = KafkaTriggerDefinition.model_validate(definition)
    return revalidation.revalidate(loaded, _registry(loaded.registry_connection), raw, request)


def _registry(connection: str | None) -> Mapping[str, Any] | None:
    if connection is None:
        return None
    given = registry_from_environment()
    if given is not None:
        return given
    # Airflow is an extra, and most triggers need none here.
    from workorders.kafka.airflow.connections import registry_settings  # noqa: PLC0415

    return registry_settings(connection)
