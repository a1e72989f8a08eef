"""From Airflow connections to librdkafka settings, and to a Spark Connect server."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseHook, conf

from workorders.airflow.connections import database_url
from workorders.core.environment import THIS_MACHINE
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.client.token_providers import CALLBACK, GOOGLE, MSK_IAM
from workorders.kafka.spark.cache import token_file

if TYPE_CHECKING:
    from workorders.kafka.definition.trigger import KafkaTriggerDefinition
    from workorders.kafka.spark.connect import ConnectServer


_ALLOWED_CALLBACKS: Final = ("apache_kafka", "callback_allowlist")
"""Option of Airflow's configuration with the functions that a Kafka connection may name."""
_GOOGLE_SERVERS: Final = ("managedkafka", "cloud.goog")
# As in Airflow's Kafka hook, whose older versions do not know Amazon MSK.
_AMAZON_SERVERS: Final = re.compile(
    r"\.kafka(?:-serverless)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?(?::\d+)?(?=$|[,\s])", re.IGNORECASE
)
SPARK_CONNECT = "spark_connect"
"""Type of the Airflow connection to a Spark Connect server."""


def kafka_settings(connection_id: str) -> dict[str, Any]:
    """Return the librdkafka settings of an Airflow Kafka connection, secrets included.

    Amazon MSK and Google's Managed Kafka are recognized as Airflow's own Kafka hook does: their tokens take a function.

    Raises:
        ConfigurationError: the connection names a function for tokens that Airflow's configuration does not allow.
        airflow.exceptions.AirflowNotFoundException: there is no such connection.
    """
    return _with_token_provider(connection_id, BaseHook.get_connection(connection_id).extra_dejson)


async def async_kafka_settings(connection_id: str) -> dict[str, Any]:
    """Return the same from code that runs in the triggerer's event loop."""
    return _with_token_provider(connection_id, (await BaseHook.aget_connection(connection_id)).extra_dejson)


def _with_token_provider(connection_id: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    if CALLBACK in extra:
        _require_allowed(connection_id, extra[CALLBACK])
        return dict(extra)
    if extra.get("sasl.mechanism", extra.get("sasl.mechanisms")) != "OAUTHBEARER" or "sasl.oauthbearer.method" in extra:
        return dict(extra)
    servers = str(extra.get("bootstrap.servers", ""))
    if all(part in servers for part in _GOOGLE_SERVERS):
        return {**extra, CALLBACK: GOOGLE}
    amazon = _AMAZON_SERVERS.search(servers)
    if amazon is not None:
        return {**extra, CALLBACK: MSK_IAM, "sasl.oauthbearer.config": f"region={amazon['region'].lower()}"}
    return dict(extra)


def _require_allowed(connection_id: str, name: object) -> None:
    """Refuse code that Airflow's own Kafka hook would refuse: who may edit connections may not choose it alone."""
    allowed = conf.get(*_ALLOWED_CALLBACKS, fallback="") or ""
    if name not in {one.strip() for one in allowed.split(",")}:
        section, option = _ALLOWED_CALLBACKS
        raise ConfigurationError(
            f"The Airflow Kafka connection {connection_id} has {CALLBACK}={name}, which Airflow's configuration does "
            f"not allow. Kafka was not asked. Add the name to [{section}] {option}."
        )


def registry_settings(connection_id: str) -> dict[str, Any]:
    """Return the settings of a schema registry's client, secrets included.

    The extra has settings of `SchemaRegistryClient`. Host, port, login, and password are those of an HTTP connection; a
    host may be a URL with a path.

    Without a schema the scheme is https, and http on this machine.

    Raises:
        airflow.exceptions.AirflowNotFoundException: there is no such connection.
    """
    connection = BaseHook.get_connection(connection_id)
    host = connection.host or "localhost"
    scheme = connection.schema or ("http" if host in THIS_MACHINE else "https")
    url = host if "://" in host else f"{scheme}://{host}"
    settings: dict[str, Any] = {"url": f"{url}:{connection.port}" if connection.port else url}
    if connection.login:
        settings["basic.auth.user.info"] = f"{connection.login}:{connection.password or ''}"
    return settings | connection.extra_dejson


def job_secrets(definition: "KafkaTriggerDefinition") -> JobSecrets:
    """Return what the connections of a trigger lead to, for the processes that ingest; raises as `kafka_settings`."""
    registry = definition.registry_connection
    return JobSecrets(
        database_url(definition.database_connection),
        kafka_settings(definition.kafka_connection),
        None if registry is None else registry_settings(registry),
    )


def connect_server(connection_id: str) -> "ConnectServer | None":
    """Return the Spark Connect server of an Airflow connection; None if the connection is of another type.

    Host, port, login (user id), password (token), and the extra's `use_ssl` are those of Airflow's Spark provider; the
    extra's `ca` is the PEM text of a certificate authority. Without a password, the token is the one that a server on
    this machine has made for this user.

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
    host, port = (connection.host or "localhost").removeprefix("sc://"), connection.port or DEFAULT_PORT
    made = token_file(port) if not connection.password and host in THIS_MACHINE else None
    return ConnectServer(
        name=connection_id,
        host=host,
        port=port,
        user=connection.login or "workorders",
        token=made.read_text(encoding="utf-8") if made is not None and made.exists() else connection.password or None,
        use_ssl=str(extra.get("use_ssl", False)).lower() == "true",
        ca=extra.get("ca"),
    )


def google(config: str) -> tuple[str, float]:
    """Return a token for Google's Managed Kafka, and the Unix time in seconds at which it expires."""
    from airflow.providers.google.cloud.hooks.managed_kafka import ManagedKafkaHook  # noqa: PLC0415 - not a dependency

    found: tuple[str, float] = ManagedKafkaHook().get_confluent_token(config)
    return found
