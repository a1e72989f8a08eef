"""Debian's Redis on a free port of the loopback interface: the queue between Airflow's schedulers and workers."""

import secrets
from pathlib import Path

from local_stack.debian import find_program
from local_stack.ports import LOOPBACK, accepts_connections, free_port
from local_stack.processes import ManagedProcess, Processes

_START_SECONDS = 120.0


class Redis:
    """A Redis server with a password, which keeps nothing on disk."""

    def __init__(self, processes: Processes, home: Path) -> None:
        self._processes = processes
        self._home = home / "redis"
        self._port = free_port()
        self._password = secrets.token_urlsafe(24)

    @property
    def url(self) -> str:
        """The address for Celery. It holds the password."""
        return f"redis://:{self._password}@{LOOPBACK}:{self._port}/0"

    def start(self, environment: dict[str, str]) -> None:
        """Start the server and wait until it listens.

        Raises:
            StackError: Redis is not installed, or did not start.
        """
        program = find_program("redis-server", "redis-server")
        self._home.mkdir(mode=0o700)
        file = self._home / "redis.conf"
        settings = {
            "bind": LOOPBACK,
            "port": str(self._port),
            "requirepass": self._password,
            "dir": str(self._home),
            "save": '""',
            "appendonly": "no",
        }
        file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()), encoding="utf-8")
        process = ManagedProcess(self._processes, "redis", [program, file], environment)
        process.start()
        process.wait_until(lambda: accepts_connections(self._port), seconds=_START_SECONDS, what="Redis")
