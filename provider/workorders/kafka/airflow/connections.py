"""From an Airflow Kafka connection to librdkafka settings."""

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

if TYPE_CHECKING:
    from airflow.sdk import Connection


def kafka_settings(connection_id: str) -> dict[str, Any]:
    """Return the librdkafka settings of an Airflow Kafka connection, secrets included.

    Raises:
        airflow.exceptions.AirflowNotFoundException: there is no such connection.
    """
    return _settings(BaseHook.get_connection(connection_id))


async def async_kafka_settings(connection_id: str) -> dict[str, Any]:
    """Return the same from code that runs in the triggerer's event loop."""
    return _settings(await BaseHook.aget_connection(connection_id))


def _settings(connection: "Connection") -> dict[str, Any]:
    return dict(connection.extra_dejson)
