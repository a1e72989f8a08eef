"""The databases of the webhooks: creates work orders and reads their outcomes there, in threads that may block."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID
from weakref import WeakKeyDictionary

import psycopg
from psycopg.conninfo import make_conninfo

from workorders.core import triggers
from workorders.core.creation.create_one import CreateResult, create_one
from workorders.core.environment import DATABASE_CONNECTION
from workorders.core.exceptions import LimitReachedError, WorkOrdersError, one_line
from workorders.core.history.runs import WorkOrderOutcome, find_outcome
from workorders.core.postgres.connection import VALUE_ERRORS, ClientConnection, Connection, connect, is_outage
from workorders.core.triggers import Trigger
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.hooks import Hook
from workorders.webhook.refusals import RefusedError, TryAgainError
from workorders.webhook.requests import Received, item
from workorders.webhook.stored_webhooks import StoredWebhook, list_stored

_LOG = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 5
_CONNECT_SECONDS: Final = 5
"""A caller waits this long; many callers do not wait for the default of ten."""
_MAX_ANSWER_SECONDS: Final = 60
"""A lock is waited for up to 30 s. Behind a proxy that hangs, a call without a limit would keep its thread for good."""
_NOT_TAKEN: Final = "Probably nothing was created; retry with the same Idempotency-Key if there is one."
_NOT_NOW = (
    psycopg.OperationalError,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
)


class RequestHandler:
    """Creates work orders from requests."""

    def __init__(self, url_of: Callable[[str], str]) -> None:
        self._url_of = url_of
        self._databases: dict[str, Database] = {}
        # By connection: another one may lead to a database that was restored to before.
        self._registered: WeakKeyDictionary[Connection, dict[str, WebhookTriggerDefinition]] = WeakKeyDictionary()

    def create(self, hook: Hook, received: Received) -> CreateResult:
        """Create the work order of a request whose caller is known, or find the one of its key.

        Raises:
            RefusedError: the body cannot be an input, or the workflow is at a limit. Nothing was created.
            TryAgainError: the database is unavailable.
        """
        definition = hook.definition
        wanted = item(definition, received)
        try:
            with self.database(definition.database_connection).connection() as connection:
                trigger = self._trigger(connection, definition)
                with connection.transaction():
                    return create_one(
                        connection,
                        trigger,
                        wanted,
                        key=definition.key_of(received.by_name),
                        key_scope=definition.key_header,
                        key_seconds=definition.idempotency_key_window,
                    )
        except LimitReachedError as error:
            raise TryAgainError("limit-reached", str(error), seconds=error.retry_after_seconds, status=429) from error
        except RefusedError:
            raise
        except VALUE_ERRORS as error:
            # A caller that may retry would retry indefinitely.
            _LOG.error("Webhook %s: the database cannot store an input: %s", definition.name, one_line(error))
            raise RefusedError(
                422, "not-storable", "The database cannot store this input; nothing was created; change the input."
            ) from error
        except (*_NOT_NOW, WorkOrdersError) as error:
            raise _try_again(f"Webhook {definition.name}", error) from error

    def find_outcome(self, database_connection: str, id_: UUID) -> WorkOrderOutcome | None:
        """Return how a work order ended; None if it has not, or the database is unavailable."""
        try:
            with self.database(database_connection).connection() as connection:
                return find_outcome(connection, id_)
        except (psycopg.Error, TryAgainError) as error:
            _LOG.warning("The outcome of work order %s cannot be read: %s", id_, type(error).__name__)
            return None

    def list_served(self) -> list[StoredWebhook]:
        """Return the webhooks that the server has.

        Raises:
            TryAgainError: the database is unavailable, or has no tables.
        """
        try:
            with self.database(DATABASE_CONNECTION).connection() as connection:
                return list_stored(connection)
        except psycopg.Error as error:
            raise _try_again("The webhooks cannot be read from the database", error) from error

    def database(self, connection_id: str) -> "Database":
        """Return the database of an Airflow connection."""
        return self._databases.setdefault(connection_id, Database(lambda: self._url(connection_id)))

    def _trigger(self, connection: Connection, definition: WebhookTriggerDefinition) -> Trigger:
        """Return the trigger's row; each connection first stores a definition, in its own transaction."""
        registered = self._registered.setdefault(connection, {})
        if registered.get(definition.name) != definition:
            with connection.transaction():
                triggers.register_definition(connection, definition)
            registered[definition.name] = definition
        # Looked up each time: what the workflow asks for, such as its ordering keys, may have changed.
        return triggers.find(connection, definition.name)

    def _url(self, connection_id: str) -> str:
        try:
            return self._url_of(connection_id)
        except Exception as error:
            _LOG.error("The Airflow connection %s cannot be read: %s", connection_id, type(error).__name__)
            raise TryAgainError(
                "not-set-up",
                f"The Airflow connection of this webhook's database cannot be read. {_NOT_TAKEN}",
                seconds=_RETRY_SECONDS,
            ) from error


class Database:
    """One database, with a connection for each thread that needs one at the same time.

    A psycopg_pool connects in its own thread while its callers wait. With one, a request during an outage was refused
    after the pool's time limit (2 s) instead of 1 ms, and the first ones after it took 1 s instead of 50 ms. `url` is
    asked for each new connection, so that a changed one counts.
    """

    def __init__(self, url: Callable[[], str]) -> None:
        self._url = url
        self._idle: deque[ClientConnection] = deque()

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Lend a connection in autocommit mode."""
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

    def _take(self) -> ClientConnection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                url = make_conninfo(self._url(), connect_timeout=_CONNECT_SECONDS)
                connection = connect(
                    url, application_name="workorders webhook", autocommit=True, may_wait=_within(_CONNECT_SECONDS)
                )
            else:
                try:
                    # Before any work: a later failure could not be distinguished from one of the commit.
                    connection.may_wait = _within(_CONNECT_SECONDS)
                    connection.execute("SELECT 1")
                except psycopg.Error:
                    connection.close()
                    continue
            connection.may_wait = _within(_MAX_ANSWER_SECONDS)
            return connection


def _within(seconds: float) -> Callable[[float], bool]:
    return lambda waited: waited < seconds


def _try_again(what: str, error: Exception) -> TryAgainError:
    """Return what a caller gets while the database fails, after a line in the log."""
    code, problem = ("not-set-up", "The database is not ready for this webhook.")
    if is_outage(error):
        code, problem = ("database-unavailable", "The database is unavailable.")
    _LOG.error("%s: %s %s", what, problem, one_line(error))
    return TryAgainError(code, f"{problem} {_NOT_TAKEN}", seconds=_RETRY_SECONDS)
