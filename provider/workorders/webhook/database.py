"""Connections to the work orders' databases, kept between requests, and the triggers registered there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, Full, LifoQueue

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
    """One database.

    Args:
        url: gives the libpq connection string; asked for each new connection, so that a changed one counts.
        idle: how many connections are kept open while nobody asks.
    """

    def __init__(self, url: Callable[[], str], *, idle: int) -> None:
        self._url = url
        self._idle: LifoQueue[Connection] = LifoQueue(idle)
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
            self._keep(connection)
            raise
        except BaseException:
            connection.close()
            raise
        self._keep(connection)

    def trigger(self, connection: Connection, definition: WebhookTriggerDefinition) -> Trigger:
        """Return the trigger as the database has it; its definition is written once, in a transaction of its own.

        Raises:
            ConfigurationError: the name is taken by a trigger of another type.
        """
        if self._registered.get(definition.name) != definition:
            with connection.transaction():
                triggers.register(
                    connection,
                    name=definition.name,
                    type_=definition.type,
                    workflow=definition.workflow,
                    definition=definition.model_dump(mode="json"),
                )
            self._registered[definition.name] = definition
        # Looked up each time: what the workflow asks for, such as its lanes, may have changed.
        return triggers.find(connection, definition.name)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return

    def _keep(self, connection: Connection) -> None:
        try:
            self._idle.put_nowait(connection)
        except Full:
            connection.close()

    def _take(self) -> Connection:
        while True:
            try:
                connection = self._idle.get_nowait()
            except Empty:
                url = make_conninfo(self._url(), connect_timeout=_CONNECT_SECONDS)
                return connect(url, application_name="workorders webhook", autocommit=True)
            try:
                # Asked before anything is done: a failure later could not be told from one of the commit.
                connection.execute("SELECT 1")
            except psycopg.Error:
                connection.close()
            else:
                return connection
