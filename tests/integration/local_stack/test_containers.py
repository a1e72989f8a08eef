"""The roles that the containers of docker-compose.yaml use, on a separate server."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from local_stack.postgres import SUPERUSER, Postgres, _programs
from local_stack.processes import Processes
from local_stack.stack import CHECKOUT
from workorders.core import schema

pytestmark = pytest.mark.integration

CONTAINERS = CHECKOUT / "include" / "containers"
PASSWORDS = {
    "AIRFLOW_DATABASE_PASSWORD": "of-airflow",
    "WORKORDERS_OWNER_PASSWORD": "of-workorders_owner",
    # Quotes are no way out of the statement.
    "WORKORDERS_WRITER_PASSWORD": "of-workorders_writer' SUPERUSER --",
    "WORKORDERS_READER_PASSWORD": "of-workorders_reader",
}


class Server:
    """A server on which the scripts of the containers were run."""

    def __init__(self, superuser_url: str) -> None:
        self.superuser_url = superuser_url

    def psql(self, user: str, *arguments: str) -> None:
        """Run a script as its container does."""
        info = conninfo_to_dict(self.url(user))
        environment = {
            **os.environ,
            **PASSWORDS,
            "PATH": f"{_programs()}{os.pathsep}{os.environ['PATH']}",
            "PGHOST": str(info["host"]),
            "PGPORT": str(info["port"]),
            "PGUSER": user,
            "PGDATABASE": "workorders",
            "PGPASSWORD": str(info["password"]),
        }
        subprocess.run(arguments, env=environment, check=True, capture_output=True, text=True, timeout=120)

    def url(self, role: str, database: str = "workorders") -> str:
        """Return the URL of a database for a role."""
        if role == SUPERUSER:
            return self.superuser_url
        password = next((word for word in PASSWORDS.values() if word.startswith(f"of-{role}")), "")
        return make_conninfo(self.superuser_url, dbname=database, user=role, password=password)

    def ask(self, role: str, query: bytes, database: str = "workorders") -> list[tuple[object, ...]]:
        """Run one statement as a role."""
        with psycopg.connect(self.url(role, database)) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """The databases of the containers, upgraded and with the grants."""
    # Not in a folder of pytest's, which the user that Postgres runs as could not enter.
    with TemporaryDirectory(prefix="workorders-containers-") as folder:
        home = Path(folder)
        home.chmod(0o711)
        logs = home / "logs"
        logs.mkdir()
        with closing(Processes(home, logs)) as processes:
            postgres = Postgres(processes, home)
            postgres.create()
            made = Server(postgres.url(SUPERUSER))
            made.psql(SUPERUSER, "bash", str(CONTAINERS / "create-databases.sh"))
            for _ in range(2):
                schema.upgrade(made.url("workorders_owner"), with_roles=True)
            yield made


def test_no_role_of_a_container_is_a_superuser(server: Server) -> None:
    assert server.ask(SUPERUSER, b"SELECT rolname::text FROM pg_roles WHERE rolsuper") == [(SUPERUSER,)]


def test_airflow_owns_its_own_database_and_cannot_enter_that_of_the_work_orders(server: Server) -> None:
    assert server.ask("airflow", b"SELECT has_schema_privilege('public', 'CREATE')", "airflow") == [(True,)]
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        server.ask("airflow", b"SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        server.ask("workorders_writer", b"SELECT 1", "airflow")


def test_the_writer_uses_the_tables_and_makes_none(server: Server) -> None:
    server.ask("workorders_writer", b"SELECT workorders.enqueue('topic', 'k', 'v')")
    schema.require_newest(server.url("workorders_writer"))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        server.ask("workorders_writer", b"CREATE TABLE workorders.more (id int)")


def test_the_reader_reads(server: Server) -> None:
    assert server.ask("workorders_reader", b"SELECT count(*) FROM workorders.work_orders") == [(0,)]
