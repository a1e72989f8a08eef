"""Keeps connections to the work orders' databases between requests, and registers triggers there."""

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
"""A caller waits this long; many callers do not wait for the default of ten."""


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
        except WorkOrdersError:  # our own refusal: the connection is intact
            self._idle.append(connection)
            raise
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)

    def trigger(self, connection: Connection, definition: WebhookTriggerDefinition) -> Trigger:
        """Return the trigger's row; a new definition is stored first, in a transaction of its own.

        Raises:
            ConfigurationError: a trigger of another type has the name.
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
                # Before any work: a later failure could not be distinguished from one of the commit.
                connection.execute("SELECT 1")
            except psycopg.Error:
                connection.close()
            else:
                return connection
