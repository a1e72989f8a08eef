"""The webhooks in the database: stored by a deployment, and served by every API server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from workorders.core import workflows
from workorders.core.environment import DATABASE_CONNECTION
from workorders.core.exceptions import ConfigurationError
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.webhook.definition import WebhookTriggerDefinition

_QUERIES = load_queries("workorders.webhook", "sql/stored_webhooks.sql")


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
