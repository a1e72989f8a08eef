"""Logins by tokens of which each opens one connection, as strict as no IAM is."""

import asyncio
import json
import secrets
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import psycopg
import pytest
from psycopg import sql

from local_stack.postgres import SUPERUSER
from local_stack.stack import DATABASE, LocalStack
from workorders.airflow.connections import async_database_url, database_url
from workorders.airflow.triggers.polling import TriggererDatabase
from workorders.core.postgres import credentials
from workorders.core.postgres.connection import Connection, connect

pytestmark = pytest.mark.integration

USER = "tokened"


class Cloud:
    """Stands for AWS: a new token is the user's new password, and every older one is worthless."""

    def __init__(self, stack: LocalStack) -> None:
        self._admin = stack.postgres.url(SUPERUSER)
        self.asked: list[tuple[str, int, str]] = []

    def generate_db_auth_token(self, host: str, port: int, user: str) -> str:
        """Return a token, as boto3's client for RDS does."""
        self.asked.append((host, port, user))
        token = secrets.token_urlsafe(24)
        with psycopg.connect(self._admin, autocommit=True) as connection:
            statement = sql.SQL("ALTER ROLE {} PASSWORD {}")
            connection.execute(statement.format(sql.Identifier(user), sql.Literal(token)))
        return token


@pytest.fixture
def cloud(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """The user, the Airflow connection `iam_db`, and what Airflow's Postgres hook asks for tokens."""
    found = Cloud(stack)

    class AwsBaseHook:
        def __init__(self, *, aws_conn_id: str, client_type: str) -> None:
            assert (aws_conn_id, client_type) == ("aws_default", "rds")
            self.conn = found

    # The provider for Amazon is not installed here; Airflow's Postgres hook imports this one class of it.
    names = ["airflow.providers.amazon", "airflow.providers.amazon.aws", "airflow.providers.amazon.aws.hooks"]
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    module: Any = ModuleType("airflow.providers.amazon.aws.hooks.base_aws")
    module.AwsBaseHook = AwsBaseHook
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(credentials, "_tokens", {})
    role = sql.Identifier(USER)
    with psycopg.connect(stack.postgres.url(SUPERUSER), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
    fields = {
        "conn_type": "postgres",
        "host": "127.0.0.1",
        "port": stack.postgres.port,
        "login": USER,
        "password": "of another time",
        "schema": DATABASE,
        "extra": {"iam": True},
    }
    monkeypatch.setenv("AIRFLOW_CONN_IAM_DB", json.dumps(fields))
    yield found
    with psycopg.connect(stack.postgres.url(SUPERUSER), autocommit=True) as connection:
        connection.execute(sql.SQL("DROP ROLE {}").format(role))


def user_of(url: str) -> object:
    with connect(url) as connection:
        row = connection.execute("SELECT current_user").fetchone()
    return row and row[0]


def test_each_connection_has_a_token_of_its_own(stack: LocalStack, cloud: Cloud) -> None:
    url = database_url("iam_db")
    assert [user_of(url) for _ in range(3)] == [USER] * 3
    assert cloud.asked == [("127.0.0.1", stack.postgres.port, USER)] * 4


def test_a_process_without_airflow_uses_the_token_that_it_was_given(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = database_url("iam_db")
    monkeypatch.setattr(credentials, "_tokens", {})  # as in an executor
    assert user_of(url) == USER


def current_user(connection: Connection) -> list[tuple[Any, ...]]:
    return connection.execute("SELECT current_user").fetchall()


def test_the_triggerer_asks_for_each_of_its_connections(stack: LocalStack, cloud: Cloud) -> None:
    async def fetch_twice() -> list[Any]:
        database = TriggererDatabase(await async_database_url("iam_db"))
        try:
            first = await database.run(current_user)
            with psycopg.connect(stack.postgres.url(SUPERUSER), autocommit=True) as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = %s", (USER,)
                )
            with pytest.raises(psycopg.OperationalError):
                await database.run(current_user)
            return [first, await database.run(current_user)]
        finally:
            await database.close()

    assert asyncio.run(fetch_twice()) == [[(USER,)]] * 2
    assert len(cloud.asked) >= 2
