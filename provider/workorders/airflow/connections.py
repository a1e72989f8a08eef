"""From Airflow's connections to what the clients take. Nothing here is logged: it may hold passwords."""

from airflow.sdk import BaseHook, Connection
from psycopg.conninfo import make_conninfo

from workorders.core.exceptions import ConfigurationError
from workorders.core.postgres.credentials import register_tokens, with_texts, with_token

# Extras of an Airflow Postgres connection that Airflow's own hook uses and libpq does not know.
_HOOK_EXTRAS = frozenset(
    {
        *("cursor", "iam", "aws_conn_id", "azure_conn_id", "sqlalchemy_scheme", "sqlalchemy_query"),
        *("redshift", "redshift-serverless", "cluster-identifier", "workgroup-name"),
    }
)


def database_url(connection_id: str) -> str:
    """Return libpq's connection string of an Airflow Postgres connection, with a password that is valid now.

    Every connection that this process opens with it has a new token, if the Airflow connection has `iam`. Another
    process has the token of this moment. Certificates and keys are in it as texts.

    Raises:
        airflow.exceptions.AirflowNotFoundException: there is no such connection.
        ConfigurationError: a certificate cannot be read, or a connection with `iam` has no login.
        psycopg.OperationalError: no token can be had now.
    """
    return with_token(_conninfo(BaseHook.get_connection(connection_id)))


async def async_database_url(connection_id: str) -> str:
    """Return the same from code that runs in the triggerer's event loop, without a token.

    So it is the same for all tasks of the triggerer, which share their connections by it.
    """
    return _conninfo(await BaseHook.aget_connection(connection_id))


def _conninfo(connection: Connection) -> str:
    extras = {name: value for name, value in connection.extra_dejson.items() if name not in _HOOK_EXTRAS}
    has_token = bool(connection.extra_dejson.get("iam"))
    given = {
        "host": connection.host,
        "port": connection.port,
        "user": connection.login,
        "password": None if has_token else connection.password,
        "dbname": connection.schema,
        **extras,
    }
    text = make_conninfo(**{name: value for name, value in given.items() if value is not None and value != ""})
    if has_token:
        if not connection.login:
            raise ConfigurationError(
                f"The Airflow connection {connection.conn_id} has iam and no login; nothing was connected; set its "
                "login to the user of the database."
            )
        register_tokens(text, lambda: _new_token(connection))
    return with_texts(text)


def _new_token(connection: Connection) -> str:
    from airflow.providers.postgres.hooks.postgres import PostgresHook  # noqa: PLC0415 - most connections need none

    _, token, _ = PostgresHook(connection=connection).get_iam_token(connection)
    return token
