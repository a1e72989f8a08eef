"""From Airflow connections to librdkafka settings, and to a Spark Connect server."""

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

if TYPE_CHECKING:
    from workorders.kafka.spark.connect import ConnectServer

SPARK_CONNECT = "spark_connect"
"""Type of the Airflow connection to a Spark Connect server."""


def kafka_settings(connection_id: str) -> dict[str, Any]:
    """Return the librdkafka settings of an Airflow Kafka connection, secrets included.

    Raises:
        airflow.exceptions.AirflowNotFoundException: there is no such connection.
    """
    return dict(BaseHook.get_connection(connection_id).extra_dejson)


async def async_kafka_settings(connection_id: str) -> dict[str, Any]:
    """Return the same from code that runs in the triggerer's event loop."""
    return dict((await BaseHook.aget_connection(connection_id)).extra_dejson)


def connect_server(connection_id: str) -> "ConnectServer | None":
    """Return the Spark Connect server of an Airflow connection; None if the connection is of another type.

    Host, port, login (user id), password (token), and the extra's `use_ssl` are those of Airflow's Spark provider; the
    extra's `ca` is the PEM text of a certificate authority.

    Raises:
        ConfigurationError: the connection is not protected.
        airflow.exceptions.AirflowNotFoundException: there is no such connection.
    """
    connection = BaseHook.get_connection(connection_id)
    if connection.conn_type != SPARK_CONNECT:
        return None
    # A task that submits does not load PySpark's Connect client.
    from workorders.kafka.spark.connect import DEFAULT_PORT, ConnectServer  # noqa: PLC0415

    extra = connection.extra_dejson
    return ConnectServer(
        name=connection_id,
        host=(connection.host or "localhost").removeprefix("sc://"),
        port=connection.port or DEFAULT_PORT,
        user=connection.login or "workorders",
        token=connection.password or None,
        use_ssl=str(extra.get("use_ssl", False)).lower() == "true",
        ca=extra.get("ca"),
    )
