"""The webhooks in the database: stored by a deployment, and served by every API server."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import psycopg
from anyio import CapacityLimiter
from psycopg.types.json import Jsonb

from workorders.core import workflows
from workorders.core.definitions.validation import validate
from workorders.core.environment import DATABASE_CONNECTION
from workorders.core.exceptions import ConfigurationError
from workorders.core.kept_value import KeptValue
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.refusals import RefusedError, TryAgainError, printable

_LOG = logging.getLogger(__name__)
_QUERIES = load_queries("workorders.webhook", "sql/stored_webhooks.sql")

THREADS: Final = 4
"""Requests of one webhook that are processed at the same time."""
_LOOK_SECONDS: Final = 1.0
"""Changes are looked for at most once per this time."""


@dataclass(frozen=True, slots=True)
class StoredWebhook:
    """A webhook as the database has it."""

    name: str
    path: str
    definition: Mapping[str, Any]
    stored_at: datetime


def apply(connection: Connection, definitions: Sequence[WebhookTriggerDefinition]) -> Mapping[str, str]:
    """Make the webhooks of the database exactly these, in the caller's transaction.

    The workflows that were found with them are registered, so that their rules apply to the first request.

    Returns:
        By the name of each webhook: `stored` if its definition is new, `unchanged`, or `removed`.

    Raises:
        ConfigurationError: two of them have one path, the role may not store webhooks, or the file of a workflow that
            is not registered has a mistake.
    """
    paths: dict[str, str] = {}
    for definition in definitions:
        other = paths.setdefault(definition.path, definition.name)
        if other != definition.name:
            raise ConfigurationError(
                f"Webhook {definition.name}: path: {definition.path} is already the path of webhook {other}; nothing "
                "was stored; give one of them another path."
            )
    try:
        connection.execute(_QUERIES["lock"])
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigurationError(
            "Webhooks: this role may not store them, because they define who may call; nothing was stored; run this "
            "as the owner of the tables, whose URL `workorders db migrate` gets."
        ) from error
    names = [definition.name for definition in definitions]
    removed = [name for (name,) in connection.execute(_QUERIES["delete_others"], {"names": names})]
    done: dict[str, str] = {}
    for definition in definitions:
        if definition.database_connection == DATABASE_CONNECTION:  # otherwise its work orders are elsewhere
            workflows.register_found(connection, definition.workflow, definition.found_workflow)
        fields = {
            "name": definition.name,
            "path": definition.path,
            "definition": Jsonb(definition.model_dump(mode="json")),
        }
        is_new = connection.execute(_QUERIES["store"], fields).fetchone() is not None
        done[definition.name] = "stored" if is_new else "unchanged"
    return done | dict.fromkeys(removed, "removed")


def list_stored(connection: Connection) -> list[StoredWebhook]:
    """Return the webhooks of the database, by name."""
    return [StoredWebhook(*row) for row in connection.execute(_QUERIES["list"])]


@dataclass
class Hook:
    """A webhook that takes requests."""

    definition: WebhookTriggerDefinition
    threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(THREADS))
    """Its threads: the other webhooks and Airflow's pages have others, which stay free while a database hangs."""
    body_bytes: int = 0
    """Bytes of the bodies that it holds."""
    requests: int = 0
    """Requests whose bodies have arrived, and that are not done."""
    waiting: int = 0
    """Callers that wait for results."""


class Hooks:
    """Finds the webhook of a path."""

    def __init__(self, list_stored: Callable[[], Sequence[StoredWebhook]], clock: Callable[[], float]) -> None:
        self._list_stored = list_stored
        self._rows: Sequence[StoredWebhook] = ()
        self._hooks: dict[str, Hook] = {}
        self._kept = KeptValue(self._reload, clock, seconds=_LOOK_SECONDS, failure_seconds=_LOOK_SECONDS)

    async def find(self, path: str) -> Hook:
        """Return the webhook of a path.

        Raises:
            RefusedError: there is none.
            TryAgainError: it is disabled, its definition is wrong, or the definitions cannot be read now.
        """
        try:
            await self._kept.get()
        except TimeoutError as error:
            raise TryAgainError("not-set-up", "The webhooks cannot be read now; nothing was created.") from error
        if (found := self._hooks.get(path)) is not None:
            if found.definition.enabled:
                return found
            raise TryAgainError("disabled", f"Nothing was created: the webhook {path} is disabled.")
        if path in (row.path for row in self._rows):
            raise TryAgainError(
                "not-known-now", f"This version cannot read the webhook {printable(path)}. Nothing was created."
            )
        raise RefusedError(404, "unknown-webhook", f"There is no webhook {printable(path)}; nothing was created.")

    def _reload(self) -> None:
        rows = self._list_stored()
        if rows == self._rows:
            return
        hooks: dict[str, Hook] = {}
        for row in rows:
            where = f"Webhook {row.name} in the database"
            try:
                definition = validate(row.definition, WebhookTriggerDefinition, where=where)
            except ConfigurationError as error:
                _LOG.error("A definition is wrong, and its webhook accepts no request: %s", error)
            else:
                hooks[definition.path] = Hook(definition)
        self._rows, self._hooks = rows, hooks
