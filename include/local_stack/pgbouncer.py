"""PgBouncer, Debian's, in front of a stack's database."""

import os
from pathlib import Path
from typing import Final, Literal

import psycopg
from psycopg import conninfo

from local_stack.certificates import Authority
from local_stack.debian import find_program
from local_stack.ports import LOOPBACK, accepts_connections, free_port
from local_stack.processes import ManagedProcess, Processes, unprivileged_user
from workorders.core.postgres.connection import SESSION_SETTINGS

Pooling = Literal["transaction", "session"]
"""When a client returns its connection to the server."""
LIMITS: Final = {
    name: SESSION_SETTINGS[name]
    for name in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout", "timezone")
}
"""Settings of a role whose sessions go through a pooler."""
CERTIFIED_USER: Final = "certified"
"""The user of clients that need a certificate."""
_START_SECONDS: Final = 120.0


class PgBouncer:
    """A pooler on its own port. Its clients need no password; it logs in as the owner of the work orders."""

    def __init__(
        self, database: str, pooling: Pooling, *, drops_options: bool = False, authority: Authority | None = None
    ) -> None:
        """Describe the pooler; `start` starts it.

        Args:
            database: the database behind it, and its owner.
            pooling: when a client returns its connection to the server.
            drops_options: whether it ignores the option `options` of a connection; by default it refuses it.
            authority: its clients need TLS and a certificate of this authority, whose name is their user.
        """
        self._database = database
        self._pooling = pooling
        self._drops_options = drops_options
        self._authority = authority
        self.port = free_port()
        #: The address for clients.
        self.url = f"postgresql://{database}@{LOOPBACK}:{self.port}/{database}"
        self._process: ManagedProcess | None = None

    def start(self, processes: Processes, home: Path, server_url: str) -> None:
        """Start it, and wait until it listens.

        Args:
            processes: The supervisor that will own it.
            home: Folder of the stack.
            server_url: The database's own address, with a password.

        Raises:
            StackError: PgBouncer is not installed, or did not start.
        """
        program = find_program("pgbouncer", "pgbouncer")
        name = f"pgbouncer-{self.port}"
        folder = home / name
        folder.mkdir(mode=0o700)
        file = folder / "pgbouncer.ini"
        file.write_text(self._configuration(server_url, folder), encoding="utf-8")
        for other, content in self._tls_files().items():
            (folder / other).write_text(content, encoding="ascii")
        if user := unprivileged_user():
            for path in (folder, *folder.iterdir()):
                os.chown(path, user["user"], user["group"])
        environment = {"PATH": os.defpath, "TZ": "UTC"}
        self._process = ManagedProcess(processes, name, [program, file], environment, unprivileged=True)
        self._process.start()
        self._process.wait_until(lambda: accepts_connections(self.port), seconds=_START_SECONDS, what="PgBouncer")

    def stop(self) -> None:
        """Stop it."""
        if self._process is not None:
            self._process.kill()

    def reconnect(self) -> None:
        """Let it open new connections to the server, as after a change of the role."""
        admin = conninfo.make_conninfo(self.url, dbname="pgbouncer", user="admin")
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.pgconn.exec_(b"RECONNECT")

    def _tls_files(self) -> dict[str, str]:
        if self._authority is None:
            return {}
        server = self._authority.server()
        return {
            "ca.pem": self._authority.pem,
            "pooler.pem": server.chain,
            "pooler.key": server.key(),
            "users": f'"{CERTIFIED_USER}" ""\n',
        }

    def _login(self, folder: Path) -> list[str]:
        """Return how clients prove who they are."""
        if self._authority is None:
            return ["auth_type = any"]
        return [
            "auth_type = cert",
            f"auth_file = {folder / 'users'}",
            "client_tls_sslmode = verify-full",
            f"client_tls_ca_file = {folder / 'ca.pem'}",
            f"client_tls_cert_file = {folder / 'pooler.pem'}",
            f"client_tls_key_file = {folder / 'pooler.key'}",
        ]

    def _configuration(self, server_url: str, folder: Path) -> str:
        server = conninfo.conninfo_to_dict(server_url)
        ignored = "options,extra_float_digits" if self._drops_options else "extra_float_digits"
        return "\n".join(
            [
                "[databases]",
                f"{self._database} = host={LOOPBACK} port={server['port']} user={server['user']} "
                f"password={server['password']}",
                "[pgbouncer]",
                f"listen_addr = {LOOPBACK}",
                f"listen_port = {self.port}",
                "unix_socket_dir =",
                *self._login(folder),
                "admin_users = admin",
                f"pool_mode = {self._pooling}",
                f"ignore_startup_parameters = {ignored}",
                "default_pool_size = 60",
                "",
            ]
        )
