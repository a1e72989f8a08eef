"""The webhooks in the database: stored by a deployment, and served where there is no folder of trigger files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from workorders.core.definitions.loading import Mistake
from workorders.core.definitions.validation import validate
from workorders.core.exceptions import ConfigurationError
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.webhook.database import Database, try_again
from workorders.webhook.definition import WebhookTriggerDefinition

_QUERIES = load_queries("workorders.webhook", "sql/stored_webhooks.sql")


@dataclass(frozen=True, slots=True)
class StoredWebhook:
    """A webhook as the database has it."""

    name: str
    path: str
    definition: Mapping[str, Any]
    stored_at: datetime


@dataclass(frozen=True, slots=True)
class Applied:
    """What an `apply` has changed, by the names of webhooks."""

    stored: Sequence[str]
    """New ones, and those whose definition is another one now."""
    unchanged: Sequence[str]
    removed: Sequence[str]


def apply(connection: Connection, definitions: Sequence[WebhookTriggerDefinition]) -> Applied:
    """Make the webhooks of the database exactly these, in the caller's transaction.

    Raises:
        ConfigurationError: two of them have one path, or the role may not store webhooks.
    """
    paths: dict[str, str] = {}
    for definition in definitions:
        other = paths.setdefault(definition.path, definition.name)
        if other != definition.name:
            raise ConfigurationError(
                f"Webhook {definition.name}: path: {definition.path} is already the path of webhook {other}; nothing "
                "was stored; give one of them another path."
            )
    names = [definition.name for definition in definitions]
    try:
        connection.execute(_QUERIES["lock"])
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigurationError(
            "Webhooks: this role may not store them, because they define who may call; nothing was stored; run this "
            "as the owner of the tables, whose URL `workorders db migrate` gets."
        ) from error
    removed = [name for (name,) in connection.execute(_QUERIES["delete_others"], {"names": names})]
    stored: list[str] = []
    for definition in definitions:
        fields = {
            "name": definition.name,
            "path": definition.path,
            "definition": Jsonb(definition.model_dump(mode="json")),
        }
        stored += [name for (name,) in connection.execute(_QUERIES["store"], fields)]
    return Applied(stored, sorted(set(names) - set(stored)), sorted(removed))


def list_stored(connection: Connection) -> list[StoredWebhook]:
    """Return the webhooks of the database, by name."""
    return [StoredWebhook(*row) for row in connection.execute(_QUERIES["list"])]


class StoredWebhooks:
    """Reads the webhooks of a database for the server."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rows: Sequence[StoredWebhook] = ()

    def stamps(self) -> object:
        """Return what changes when a webhook does."""
        try:
            with self._database.connection() as connection:
                self._rows = list_stored(connection)
        except psycopg.Error as error:
            raise try_again("The webhooks cannot be read from the database", error) from error
        return self._rows

    def load(self) -> tuple[Sequence[WebhookTriggerDefinition], Sequence[Mistake]]:
        """Return the webhooks that the last stamps are of, and the mistakes of those that this version cannot read."""
        definitions, mistakes = [], []
        for row in self._rows:
            where = f"Webhook {row.name} in the database"
            try:
                definitions.append(validate(row.definition, WebhookTriggerDefinition, where=where))
            except ConfigurationError as error:
                mistakes.append(Mistake(row.name, error))
        return definitions, mistakes
