"""Where the command line finds Postgres and Kafka: options, the environment, and Airflow's connections last."""

import importlib.util
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from workorders.core.environment import DATABASE_URL_VARIABLE, find_secret
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.secrets import KAFKA_VARIABLE, REGISTRY_VARIABLE, registry_from_environment

if TYPE_CHECKING:
    from workorders.core.postgres.connection import Connection

T = TypeVar("T")

DATABASE_CONNECTION = "workorders_db"
"""The Airflow connection that is used when neither option nor environment names the database."""


def database_url(given: str | None) -> str:
    """Return the URL of the option or the environment, else of Airflow's connection.

    Raises:
        ConfigurationError: none of them is set.
    """
    if found := given or find_secret(DATABASE_URL_VARIABLE):
        return found
    if not airflow_is_configured():
        raise ConfigurationError(
            f"The database is not configured; set {DATABASE_URL_VARIABLE} to "
            f"postgresql://user:password@host:port/database, or run this where Airflow has a connection "
            f"{DATABASE_CONNECTION} (with `make up`, type `. build/stack/environment.sh` first)."
        )
    return _airflow_database_url(DATABASE_CONNECTION, f"set {DATABASE_URL_VARIABLE}")


def airflow_database_url(connection_id: str) -> str:
    """Return the URL of an Airflow connection.

    Raises:
        ConfigurationError: Airflow is not configured here, or has no such connection.
    """
    if not airflow_is_configured():
        raise ConfigurationError(
            f"Airflow is not configured here, so its connection {connection_id} was not looked up; run this where "
            "Airflow runs."
        )
    return _airflow_database_url(connection_id, "give another one")


def _airflow_database_url(connection_id: str, otherwise: str) -> str:
    from workorders.airflow.connections import database_url as of_airflow  # noqa: PLC0415 - Airflow is an extra, and slow

    return _from_airflow(of_airflow, connection_id, otherwise)


def connect(given: str | None) -> "Connection":
    """Open a connection that cannot write, because most commands only read.

    Raises:
        ConfigurationError: the database is not configured.
        psycopg.OperationalError: the database cannot be reached.
    """
    connection = connect_to_write(given)
    connection.read_only = True
    return connection


def connect_to_write(given: str | None) -> "Connection":
    """Open a connection for a command that changes something.

    Raises:
        ConfigurationError: the database is not configured.
        psycopg.OperationalError: the database cannot be reached.
    """
    # Not above: commands that need no database do not wait for its driver.
    from workorders.core.postgres import connection as database  # noqa: PLC0415

    return database.connect(database_url(given), application_name="workorders cli")


def kafka_settings(connection_id: str) -> Mapping[str, Any]:
    """Return the librdkafka settings of the environment, else of the Airflow connection with that id.

    Raises:
        ConfigurationError: neither is set, or the variable is not a JSON object.
    """
    if text := find_secret(KAFKA_VARIABLE):
        return _json_object(text)
    if not airflow_is_configured():
        raise ConfigurationError(
            f"Kafka is not configured, so it was not queried; set {KAFKA_VARIABLE} to a JSON object of librdkafka "
            f'settings such as {{"bootstrap.servers": "host:9092"}}, or run this where Airflow has a connection '
            f"{connection_id}."
        )
    from workorders.kafka.airflow.connections import kafka_settings as of_airflow  # noqa: PLC0415 - as above

    return _from_airflow(of_airflow, connection_id, f"set {KAFKA_VARIABLE}")


def registry_settings(connection_id: str) -> Mapping[str, Any]:
    """Return the settings of a schema registry's client of the environment, else of the Airflow connection.

    Raises:
        ConfigurationError: neither is set, or the variable is not a JSON object.
    """
    if (found := registry_from_environment()) is not None:
        return found
    require_airflow()
    from workorders.kafka.airflow.connections import registry_settings as of_airflow  # noqa: PLC0415 - as above

    return _from_airflow(of_airflow, connection_id, f"set {REGISTRY_VARIABLE}")


def airflow_is_configured() -> bool:
    """Return whether Airflow is installed and configured, without the import that would write a configuration."""
    if importlib.util.find_spec("airflow") is None:
        return False
    home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
    by_environment = any(name.startswith(("AIRFLOW__", "AIRFLOW_CONN_")) for name in os.environ)
    return by_environment or (home / "airflow.cfg").exists()


def _json_object(text: str) -> Mapping[str, Any]:
    try:
        settings = json.loads(text)
    except json.JSONDecodeError:
        settings = None
    if not isinstance(settings, dict):
        # The text is not repeated because it may contain a password.
        raise ConfigurationError(
            f"The environment variable {KAFKA_VARIABLE} is not a JSON object, so Kafka was not queried; give settings "
            f'of librdkafka, such as {{"bootstrap.servers": "host:9092"}}.'
        )
    return settings


def require_airflow() -> None:
    """Let this process read Airflow's database, as Airflow's own programs do.

    Raises:
        ConfigurationError: Airflow is not configured here.
    """
    if not airflow_is_configured():
        raise ConfigurationError(
            "Airflow is not configured here, so it was not asked; run this where an Airflow component runs, with its "
            "environment (with `make up`, type `. build/stack/environment.sh` first)."
        )
    # Outside its own processes Airflow reads its metadata database only with this variable, which its CLI sets too.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")


def _from_airflow(ask: Callable[[str], T], connection_id: str, otherwise: str) -> T:
    from airflow.sdk.exceptions import AirflowException  # noqa: PLC0415 - as above

    require_airflow()
    try:
        return ask(connection_id)
    except AirflowException as error:
        raise ConfigurationError(
            f"Airflow has no connection {connection_id} that can be read here ({error}); add it, or {otherwise}."
        ) from error
