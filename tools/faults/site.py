"""Where faults are injected: a local stack whose parts reach one another through proxies."""

import itertools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from faults.breakpoints import PostgresProxy
from faults.proxy import Proxy
from local_stack.ports import LOOPBACK, free_port
from local_stack.postgres import SUPERUSER
from local_stack.processes import ManagedProcess
from local_stack.stack import CHECKOUT, DATABASE, LocalStack

PYTHON_PATH = os.pathsep.join(str(CHECKOUT / folder) for folder in ("provider", "include", "tests", "tools"))


class Site:
    """A separate stack, with a proxy before Postgres and one before Kafka, from entering the context until leaving.

    What the product does goes through the proxies; the producer, the sampler and the oracle go past them.
    """

    def __init__(self, name: str = "faults", variables: Mapping[str, str] | None = None) -> None:
        self.stack = LocalStack(name=name, environment=variables)
        self._numbers = itertools.count(1)
        #: Before Postgres.
        self.postgres: PostgresProxy
        #: Before Kafka.
        self.kafka: Proxy

    def __enter__(self) -> Self:
        self.stack.__enter__()
        try:
            self.postgres = PostgresProxy(self.stack.postgres.port)
            self.kafka = self._second_listener()
        except BaseException:
            self.stack.stop(keep_logs=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stack.__exit__(kind, error, traceback)
        self.postgres.close()
        self.kafka.close()

    @property
    def admin_url(self) -> str:
        """Postgres past the proxy and past all limits."""
        return self.stack.postgres.url(DATABASE, role=SUPERUSER)

    @property
    def kafka_settings(self) -> dict[str, Any]:
        """Kafka past the proxy."""
        return {**self.stack.kafka_settings, "log_level": 0}

    def admin(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run one statement as the superuser, and return its rows."""
        with psycopg.connect(self.admin_url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    def process(self, name: str, *arguments: str, variables: Mapping[str, str] | None = None) -> ManagedProcess:
        """Start a Python module in a separate process that ends with the stack."""
        return self._started(name, [sys.executable, "-m", *arguments], variables or {})

    def command(self, *words: str) -> ManagedProcess:
        """Start `workorders` with these words, in a separate process that ends with the stack."""
        return self._started("workorders", [str(Path(sys.executable).parent / "workorders"), *words], {})

    def _started(self, name: str, command: Sequence[str], variables: Mapping[str, str]) -> ManagedProcess:
        process = self.stack.process(f"{name}-{next(self._numbers)}", command, {**self._variables(), **variables})
        process.start()
        return process

    def heal(self) -> None:
        """Undo whatever a fault left behind."""
        self.postgres.heal()
        self.kafka.heal()
        if not self.stack.postgres.process.running:
            self.stack.postgres.start()
        if not self.stack.kafka.process.running:
            self.stack.kafka.start()

    def database_url(self, *, options: str = "") -> str:
        """Return the URL that the product has, with options of Postgres added."""
        parts = conninfo_to_dict(self.stack.database_url)
        login = f"{quote(str(parts['user']))}:{quote(str(parts['password']))}"
        return f"postgresql://{login}@{LOOPBACK}:{self.postgres.port}/{DATABASE}?options={quote(options)}"

    def _variables(self) -> dict[str, str]:
        return {
            "WORKORDERS_DATABASE_URL": self.database_url(),
            "WORKORDERS_KAFKA": json.dumps({"bootstrap.servers": f"{LOOPBACK}:{self.kafka.port}", "log_level": 0}),
            "PYTHONPATH": PYTHON_PATH,
        }

    def _second_listener(self) -> Proxy:
        """Let the broker listen on a second port, and tell its clients there that it is at the proxy's."""
        behind = free_port()
        proxy = Proxy(behind)
        self.stack.kafka.stop()
        properties = self.stack.home / "kafka" / "server.properties"
        given = dict(line.split("=", 1) for line in properties.read_text(encoding="utf-8").splitlines())
        given["listeners"] += f",PROXIED://{LOOPBACK}:{behind}"
        given["advertised.listeners"] += f",PROXIED://{LOOPBACK}:{proxy.port}"
        given["listener.security.protocol.map"] += ",PROXIED:PLAINTEXT"
        # Retention is looked after every five minutes by default.
        given["log.retention.check.interval.ms"] = "500"
        given["log.initial.task.delay.ms"] = "500"
        properties.write_text("".join(f"{key}={value}\n" for key, value in given.items()), encoding="utf-8")
        self.stack.kafka.start()
        return proxy
