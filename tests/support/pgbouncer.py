"""PgBouncer, Debian's, in front of a stack's database."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Literal

import psycopg
import pytest
from psycopg import conninfo, sql

from local_stack.ports import accepts_connections, free_port
from local_stack.postgres import SUPERUSER
from local_stack.processes import ManagedProcess, unprivileged_user
from local_stack.stack import DATABASE, LocalStack
from support.authority import Authority
from workorders.core.postgres.session_limits import SESSION_SETTINGS

USER = "certified"
"""The user of clients that need a certificate."""
Pooling = Literal["transaction", "session"]
LIMITS = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout", "timezone")
_START_SECONDS = 60.0
_INSTALL_SECONDS = 300.0


class PgBouncer:
    """A pooler on a port of its own. Its clients need no password; it logs in as the owner of the work orders."""

    def __init__(self, pooling: Pooling, *, drops_options: bool = False, authority: Authority | None = None) -> None:
        """Describe the pooler; `start` starts it.

        Args:
            pooling: when a client returns its connection to the server.
            drops_options: whether it ignores the option `options` of a connection; by default it refuses it.
            authority: its clients need TLS and a certificate of this authority, whose name is their user.
        """
        self._pooling = pooling
        self._drops_options = drops_options
        self._authority = authority
        self.port = free_port()
        self.url = f"postgresql://{DATABASE}@127.0.0.1:{self.port}/{DATABASE}"
        self._process: ManagedProcess | None = None

    def start(self, stack: LocalStack) -> None:
        """Start it in front of the stack's database; it ends with the stack."""
        name = f"pgbouncer-{self.port}"
        home = stack.home / name
        home.mkdir(mode=0o700)
        file = home / "pgbouncer.ini"
        file.write_text(self._configuration(stack, home), encoding="utf-8")
        for other, content in self._tls_files().items():
            (home / other).write_text(content, encoding="ascii")
        if user := unprivileged_user():
            for path in (home, *home.iterdir()):
                os.chown(path, user["user"], user["group"])
        self._process = stack.process(name, [program(), file], unprivileged=True)
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
        certificate, key = self._authority.issue("pooler", address="127.0.0.1")
        return {"ca.pem": self._authority.pem, "pooler.pem": certificate, "pooler.key": key, "users": f'"{USER}" ""\n'}

    def _login(self, home: Path) -> list[str]:
        """Return how clients prove who they are."""
        if self._authority is None:
            return ["auth_type = any"]
        return [
            "auth_type = cert",
            f"auth_file = {home / 'users'}",
            "client_tls_sslmode = verify-full",
            f"client_tls_ca_file = {home / 'ca.pem'}",
            f"client_tls_cert_file = {home / 'pooler.pem'}",
            f"client_tls_key_file = {home / 'pooler.key'}",
        ]

    def _configuration(self, stack: LocalStack, home: Path) -> str:
        server = conninfo.conninfo_to_dict(stack.database_url)
        ignored = "options,extra_float_digits" if self._drops_options else "extra_float_digits"
        return "\n".join(
            [
                "[databases]",
                f"{DATABASE} = host=127.0.0.1 port={server['port']} user={server['user']} "
                f"password={server['password']}",
                "[pgbouncer]",
                "listen_addr = 127.0.0.1",
                f"listen_port = {self.port}",
                "unix_socket_dir =",
                *self._login(home),
                "admin_users = admin",
                f"pool_mode = {self._pooling}",
                f"ignore_startup_parameters = {ignored}",
                "default_pool_size = 60",
                "",
            ]
        )


@cache
def program() -> Path:
    """Return Debian's program; the test is skipped where it is neither installed nor can be."""
    if found := _find():
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        install = "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends"
        subprocess.run(["sh", "-c", f"{install} pgbouncer"], check=False, capture_output=True, timeout=_INSTALL_SECONDS)
        if found := _find():
            return found
    pytest.skip("PgBouncer is not installed, and apt cannot install it here.")


def _find() -> Path | None:
    found = shutil.which("pgbouncer", path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"]))
    return Path(found) if found else None


def set_limits(stack: LocalStack, *, are_set: bool) -> None:
    """Give the owner of the work orders the limits of sessions, or take them away."""
    with psycopg.connect(stack.postgres.url(SUPERUSER), autocommit=True) as connection:
        for name in LIMITS:
            role, setting = sql.Identifier(DATABASE), sql.Identifier(name)
            change = (
                sql.SQL("SET {} = {}").format(setting, sql.Literal(SESSION_SETTINGS[name]))
                if are_set
                else sql.SQL("RESET {}").format(setting)
            )
            connection.execute(sql.SQL("ALTER ROLE {} {}").format(role, change))
