"""Opens an administration client for a command, with one clear error if that fails."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.settings import client_settings
from workorders.kafka.exceptions import ClientSettingsError

if TYPE_CHECKING:
    from workorders.kafka.client.admin import KafkaAdmin


def open_admin(connection_id: str, settings_of: Callable[[str], Mapping[str, Any]], **options: Any) -> "KafkaAdmin":
    """Open a client by the id of its Kafka connection, with options of `KafkaAdmin`; no request is sent yet.

    Raises:
        ConfigurationError: the settings are missing or refused, or the client is not installed.
    """
    extra = settings_of(connection_id)
    try:
        # The client is an extra: commands that need only the database work without it.
        from workorders.kafka.client.admin import KafkaAdmin  # noqa: PLC0415
    except ImportError:
        raise ConfigurationError(
            "The package confluent-kafka is not installed, so Kafka was not asked; "
            "install airflow-provider-workorders[kafka]."
        ) from None
    try:
        return KafkaAdmin(client_settings(extra), **options)
    except ClientSettingsError as error:
        raise ClientSettingsError(f"{connection_id}: {error}") from error
