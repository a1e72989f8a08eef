"""From Airflow's connections to what the clients take. Nothing here is logged: it may hold passwords."""

from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from psycopg.conninfo import make_conninfo

if TYPE_CHECKING:
    from airflow.sdk import Connection

# Extras of an Airflow Postgres connection that Airflow's own hook uses and libpq does not know.
_HOOK_EXTRAS = frozenset({"cursor", "iam", "redshift", "aws_conn_id", "cluster-identifier", "workgroup-name"})


def database_url(connection_id: str) -> str:
    """Return libpq's connection string of an Airflow Postgres connection.

    Raises:
        airflow.exceptions.AirflowNotFoundException: there is no such connection.
    """
    return _conninfo(BaseHook.get_connection(connection_id))


async def async_database_url(connection_id: str) -> str:
    """Return the same from code that runs in the triggerer's event loop."""
    return _conninfo(await BaseHook.aget_connection(connection_id))


def _conninfo(connection: "Connection") -> str:
    extras = {name: value for name, value in connection.extra_dejson.items() if name not in _HOOK_EXTRAS}
    given = {
        "host": connection.host,
        "port": connection.port,
        "user": connection.login,
        "password": connection.password,
        "dbname": connection.schema,
        **extras,
    }
    return make_conninfo(**{name: value for name, value in given.items() if value is not None and value != ""})
