"""Creates the work order of a request and reads its outcome, in a thread that may block."""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from uuid import UUID

import psycopg
from psycopg.conninfo import make_conninfo

from workorders.core import triggers
from workorders.core.admission import limits
from workorders.core.creation.create_one import CreateResult, create_one
from workorders.core.exceptions import HardLimitError, WorkOrdersError, one_line
from workorders.core.history.runs import WorkOrderOutcome, find_ended, find_outcome
from workorders.core.postgres.connection import VALUE_ERRORS, Connection, connect, is_outage
from workorders.core.triggers import Trigger
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.hooks import Hook
from workorders.webhook.refusals import RefusedError, TryAgainError
from workorders.webhook.requests import Received, item

_LOG = logging.getLogger(__name__)

_RETRY_SECONDS = 5
_CONNECT_SECONDS = 5
"""A caller waits this long; many callers do not wait for the default of ten."""
_NOT_NOW = (
    psycopg.OperationalError,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
)
_NOT_TAKEN = "Nothing was created, as far as is known; retry with the same Idempotency-Key if there is one."


class _Database:
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


class RequestHandler:
    """Creates work orders from requests.

    Args:
        url_of: returns the libpq connection string of an Airflow connection.
    """

    def __init__(self, url_of: Callable[[str], str]) -> None:
        self._url_of = url_of
        self._databases: dict[str, _Database] = {}

    def create(self, hook: Hook, received: Received) -> CreateResult:
        """Create the work order of a request whose caller is known, or find the one of its key.

        Raises:
            RefusedError: the caller calls too often, or the body cannot be an input. Nothing was created.
            TryAgainError: the database is unavailable.
        """
        definition = hook.definition
        wanted = item(definition, received)
        database = self._database(definition.database_connection)
        try:
            with database.connection() as connection:
                trigger = database.trigger(connection, definition)
                # After authentication: strangers must not use up the tokens of known callers.
                _require_tokens(connection, trigger, definition)
                with connection.transaction():
                    return create_one(
                        connection,
                        trigger,
                        wanted,
                        key=received.key,
                        key_scope=received.key_header,
                        key_seconds=definition.key_window,
                    )
        except HardLimitError as error:
            raise TryAgainError("limit-reached", str(error), seconds=error.retry_after_seconds, status=429) from error
        except RefusedError:
            raise
        except VALUE_ERRORS as error:
            # A caller that may retry would retry without end.
            _LOG.error("Webhook %s: the database cannot store an input: %s", definition.name, one_line(error))
            raise RefusedError(
                422, "not-storable", "The database cannot store this input; nothing was created; change the input."
            ) from error
        except (*_NOT_NOW, WorkOrdersError) as error:
            code, problem = ("not-set-up", "The database is not ready for this webhook.")
            if is_outage(error):
                code, problem = ("database-unavailable", "The database is unavailable.")
            _LOG.error("Webhook %s: %s %s", definition.name, problem, one_line(error))
            raise TryAgainError(code, f"{problem} {_NOT_TAKEN}", seconds=_RETRY_SECONDS) from error

    def find_ended(self, database_connection: str, ids: Collection[UUID]) -> list[UUID]:
        """Return the work orders that have ended.

        Raises:
            psycopg.Error: the database failed.
        """
        with self._database(database_connection).connection() as connection:
            return find_ended(connection, ids)

    def find_outcome(self, database_connection: str, id_: UUID) -> WorkOrderOutcome | None:
        """Return how a work order ended; None if it has not, or the database is unavailable."""
        try:
            with self._database(database_connection).connection() as connection:
                return find_outcome(connection, id_)
        except (psycopg.Error, TryAgainError) as error:
            _LOG.warning("The outcome of work order %s cannot be read: %s", id_, type(error).__name__)
            return None

    def _database(self, connection_id: str) -> _Database:
        return self._databases.setdefault(connection_id, _Database(lambda: self._url(connection_id)))

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


def _require_tokens(connection: Connection, trigger: Trigger, definition: WebhookTriggerDefinition) -> None:
    rate = definition.rate_limit_per_second
    seconds = 0 if rate is None else limits.acquire_token(connection, trigger.id, rate, definition.rate_burst)
    if seconds:
        raise TryAgainError(
            "too-many-requests",
            f"Nothing was created: more than {rate:g} requests per second; retry in {seconds} s.",
            seconds=seconds,
            status=429,
        )
