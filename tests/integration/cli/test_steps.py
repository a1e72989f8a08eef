"""`workorders steps`: the table in a database of a user."""

import subprocess
import sys
from collections.abc import Mapping

import psycopg
import pytest

from local_stack.stack import LocalStack

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
