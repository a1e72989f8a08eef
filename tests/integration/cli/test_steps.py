"""`workorders steps`: the table in a database of a user."""

import subprocess
import sys
from collections.abc import Mapping
from uuid import uuid4

import psycopg
import pytest

from local_stack.stack import LocalStack
from support.command import Command
from workorders.core.postgres.connection import connect

pytestmark = pytest.mark.integration

COLUMNS = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'workorders_steps'"


def workorders(variables: Mapping[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command."""
    command = [sys.executable, "-m", "workorders.cli.main", *arguments]
    return subprocess.run(command, env=dict(variables), capture_output=True, text=True, check=False)


def test_the_table_is_created_once_by_the_connection_or_by_the_printed_sql(stack: LocalStack, name: str) -> None:
    for database in (name, f"{name}-2"):
        stack.postgres.create_database(database)
    variables = {**stack.environment(), "AIRFLOW_CONN_SHOP_DB": stack.postgres.url(name)}
    for _ in range(2):
        created = workorders(variables, "steps", "create-table", "--connection", "shop_db")
        assert (created.returncode, created.stderr) == (0, "")
        assert created.stdout == "The database of the Airflow connection shop_db has the table workorders_steps.\n"
    printed = workorders(variables, "steps", "create-table", "--sql")
    with psycopg.connect(stack.postgres.url(f"{name}-2"), autocommit=True) as connection:
        connection.execute(printed.stdout.encode())
    for database in (name, f"{name}-2"):
        with psycopg.connect(stack.postgres.url(database)) as connection:
            assert connection.execute(COLUMNS).fetchone() == (6,)


def test_a_connection_that_airflow_does_not_have_is_an_error(stack: LocalStack) -> None:
    missing = workorders(stack.environment(), "steps", "create-table", "--connection", "nowhere_db")
    assert missing.returncode == 1
    assert "Airflow has no connection nowhere_db" in missing.stderr


def test_old_results_of_transactions_are_deleted_from_the_database_of_a_connection(
    stack: LocalStack, workorders: Command, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = name.replace("-", "_")
    stack.postgres.create_database(database)
    url = stack.postgres.url(database)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", url)
    with connect(url) as shop:
        shop.execute("CREATE TABLE workorders_steps (work_order_id uuid, finished_at timestamptz)")
        for days in (401, 399):
            row = [uuid4(), days]
            shop.execute("INSERT INTO workorders_steps VALUES (%s, now() - make_interval(days => %s))", row)
    command = ("steps", "purge", "--connection", "shop_db", "--older-than")
    assert workorders(*command, "400d").out == "1 results of transactions were deleted.\n"
    assert workorders(*command, "400d").out == "0 results of transactions were deleted.\n"
    assert workorders(*command, "long ago").code == 2
    assert (
        "Airflow has no connection nowhere"
        in workorders("steps", "purge", "--connection", "nowhere", *command[-1:], "1d").err
    )
