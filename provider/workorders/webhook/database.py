"""Connections to the work orders' databases, kept between requests, and the triggers registered there."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import make_conninfo

from workorders.core import triggers
from workorders.core.exceptions import WorkOrdersError
from workorders.core.postgres.connection import Connection, connect
from workorders.core.triggers import Trigger
from workorders.webhook.definition import WebhookTriggerDefinition

_CONNECT_SECONDS = 5
"""A caller waits for this; the default of ten would keep its request longer than many callers wait."""


class Database:
    """One database, with a connection for each thread that needs one at the same time.

    A psycopg_pool connects in a thread of its own while its callers wait. With one, a request during an outage was
    refused after the pool's time limit (2 s) instead of 1 ms, and the first ones after it took 1 s instead of 50 ms.

    Args:
        url: gives the libpq connection string; asked for each new connection, so that a changed one counts.
    """

    def __init__(self, url: Callable[[], str]) -> None:
        self._url = url
        self._idle: deque[Connection] = deque()
        self._registered: dict[str, WebhookTriggerDefinition] = {}

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Lend a connection in autocommit mode.

        Raises:
            psycopg.OperationalError: the database cannot be reached.
        """
        connection = self._take()
        try:
            yield connection
        except WorkOrdersError:  # refused by us, so nothing is wrong with the connection
            self._idle.append(connection)
            raise
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)

    def trigger(self, connection: Connection, definition: WebhookTriggerDefinition) -> Trigger:
        """Return the trigger as the database has it; its definition is written once, in a transaction of its own.

        Raises:
            ConfigurationError: the name is taken by a trigger of another type.
        """
        if self._registered.get(definition.name) != definition:
            with connection.transaction():
                triggers.register_definition(connection, definition)
            self._registered[definition.name] = definition
        # Looked up each time: what the workflow asks for, such as its ordering keys, may have changed.
        return triggers.find(connection, definition.name)

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                url = make_conninfo(self._url(), connect_timeout=_CONNECT_SECONDS)
                return connect(url, application_name="workorders webhook", autocommit=True)
            try:
                # Asked before anything is done: a failure later could not be told from one of the commit.
                connection.execute("SELECT 1")
            except psycopg.Error:
                connection.close()
            else:
                return connection
