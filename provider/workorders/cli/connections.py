"""Where the command line finds Postgres and Kafka: options, the environment, and Airflow's connections last."""

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workorders.core.environment import DATABASE_CONNECTION, DATABASE_URL_VARIABLE, find_secret
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.client.secrets import EXAMPLES, KAFKA_VARIABLE, REGISTRY_VARIABLE, settings_from_environment

if TYPE_CHECKING:
    from workorders.core.postgres.connection import Connection


def database_url(given: str | None) -> str:
    """Return the URL of the option or the environment, else of Airflow's connection.

    Raises:
        ConfigurationError: none of them is set.
    """
    otherwise = f"set {DATABASE_URL_VARIABLE} to postgresql://user:password@host:port/database"
    return given or find_secret(DATABASE_URL_VARIABLE) or airflow_database_url(DATABASE_CONNECTION, otherwise)


def airflow_database_url(connection_id: str, otherwise: str = "give another one") -> str:
    """Return the URL of an Airflow connection.

    Raises:
        ConfigurationError: Airflow is not configured here, or has no such connection.
    """
    with _airflow_connection(connection_id, otherwise):
        from workorders.airflow.connections import database_url as of_airflow  # noqa: PLC0415 - an extra, and slow

        return of_airflow(connection_id)


def connect(given: str | None) -> "Connection":
    """Open a connection as `connect_to_write`, but one that cannot write, because most commands only read."""
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
    return _settings(KAFKA_VARIABLE, lambda airflow: airflow.kafka_settings(connection_id), connection_id)


def registry_settings(connection_id: str) -> Mapping[str, Any]:
    """Return the same for the client of a schema registry."""
    return _settings(REGISTRY_VARIABLE, lambda airflow: airflow.registry_settings(connection_id), connection_id)


def _settings(variable: str, of_airflow: Callable[[Any], Mapping[str, Any]], connection_id: str) -> Mapping[str, Any]:
    if (found := settings_from_environment(variable)) is not None:
        return found
    with _airflow_connection(connection_id, f"set {variable} to a JSON object such as {EXAMPLES[variable]}"):
        from workorders.kafka.airflow import connections  # noqa: PLC0415 - as above

        return of_airflow(connections)


def airflow_is_configured() -> bool:
    """Return whether Airflow is installed and configured, without the import that would write a configuration."""
    if importlib.util.find_spec("airflow") is None:
        return False
    home = Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
    by_environment = any(name.startswith(("AIRFLOW__", "AIRFLOW_CONN_")) for name in os.environ)
    return by_environment or (home / "airflow.cfg").exists()


def require_airflow(not_done: str = "it was not asked", otherwise: str = "") -> None:
    """Let this process read Airflow's database, as Airflow's own programs do.

    Args:
        not_done: the part of the error about what was not done.
        otherwise: what to do instead of running this where Airflow is configured, with a comma behind it.

    Raises:
        ConfigurationError: Airflow is not configured here.
    """
    if not airflow_is_configured():
        raise ConfigurationError(
            f"Airflow is not configured here, so {not_done}; {otherwise}run this where an Airflow component "
            f"runs, with its environment (with `make up`, type `. build/stack/environment.sh` first)."
        )
    # Outside its own processes Airflow reads its metadata database only with this variable, which its CLI sets too.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")


@contextmanager
def _airflow_connection(connection_id: str, otherwise: str) -> Iterator[None]:
    """Turn Airflow's errors about a connection into sentences, before and after it is read."""
    require_airflow(f"its connection {connection_id} was not read", f"{otherwise}, or ")
    from airflow.sdk.exceptions import AirflowException  # noqa: PLC0415 - as above

    try:
        yield
    except AirflowException as error:
        raise ConfigurationError(
            f"Airflow has no connection {connection_id} that can be read here ({error}); add it, or {otherwise}."
        ) from error
