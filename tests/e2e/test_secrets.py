"""Passwords are in no log, no argument, no template and nowhere in Airflow's own database."""

from pathlib import Path

import psycopg
from psycopg import sql

from local_stack.stack import LocalStack
from support.command_lines import CommandLines
from support.observed_trigger import Place


def password(stack: LocalStack) -> str:
    """Return the password of the work orders' database, which no other user has."""
    found = psycopg.conninfo.conninfo_to_dict(stack.database_url)["password"]
    assert isinstance(found, str)
    assert len(found) > 20
    return found


def test_no_log_holds_the_password(airflow_stack: LocalStack, ordered: list[Place]) -> None:
    secret = password(airflow_stack).encode()
    files = [path for folder in (airflow_stack.logs, airflow_stack.airflow.home) for path in files_below(folder)]
    assert any("task_id=create_work_orders" in str(path) for path in files)
    assert any("task_id=wait_for_messages" in str(path) for path in files)
    assert [path for path in files if secret in path.read_bytes()] == []


def test_no_process_has_the_password_among_its_arguments(
    airflow_stack: LocalStack, ordered: list[Place], command_lines: CommandLines
) -> None:
    secret = password(airflow_stack)
    seen = list(command_lines.seen)
    assert any("--batch" in line for line in seen)
    assert [line for line in seen if any(secret in argument for argument in line)] == []


def test_airflows_database_holds_the_password_nowhere(airflow_stack: LocalStack, ordered: list[Place]) -> None:
    secret = password(airflow_stack)
    found: list[str] = []
    with psycopg.connect(airflow_stack.postgres.url("airflow")) as connection:
        tables = [
            str(row[0]) for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        ]
        # Rendered templates, XComs, serialized DAGs, notes, the audit log and all else.
        assert {"rendered_task_instance_fields", "xcom", "serialized_dag", "log", "trigger"} <= set(tables)
        for table in tables:
            query = sql.SQL("SELECT count(*) FROM {} AS row WHERE strpos(row::text, %s) > 0").format(
                sql.Identifier(table)
            )
            row = connection.execute(query, (secret,)).fetchone()
            if row != (0,):
                found.append(table)
    assert found == []


def files_below(folder: Path) -> list[Path]:
    """Return every file of a folder and its folders."""
    return [path for path in folder.rglob("*") if path.is_file()]
