"""Creates the work order of a request and reads its outcome, in a thread that may block."""

import logging
from collections.abc import Callable
from uuid import UUID
from weakref import WeakKeyDictionary

import psycopg

from workorders.core import triggers
from workorders.core.creation.create_one import CreateResult, create_one
from workorders.core.exceptions import LimitReachedError, WorkOrdersError, one_line
from workorders.core.history.runs import WorkOrderOutcome, find_outcome
from workorders.core.postgres.connection import VALUE_ERRORS, Connection
from workorders.core.triggers import Trigger
from workorders.webhook.database import NOT_TAKEN, RETRY_SECONDS, Database, try_again
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.stored_webhooks import Hook
from workorders.webhook.refusals import RefusedError, TryAgainError
from workorders.webhook.requests import Received, item

_LOG = logging.getLogger(__name__)

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
            raise try_again(f"Webhook {definition.name}", error) from error

    def find_outcome(self, database_connection: str, id_: UUID) -> WorkOrderOutcome | None:
        """Return how a work order ended; None if it has not, or the database is unavailable."""
        try:
            with self.database(database_connection).connection() as connection:
                return find_outcome(connection, id_)
        except (psycopg.Error, TryAgainError) as error:
            _LOG.warning("The outcome of work order %s cannot be read: %s", id_, type(error).__name__)
            return None

    def database(self, connection_id: str) -> Database:
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
                f"The Airflow connection of this webhook's database cannot be read. {NOT_TAKEN}",
                seconds=RETRY_SECONDS,
            ) from error
