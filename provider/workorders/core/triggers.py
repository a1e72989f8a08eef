"""Triggers and workflows as rows: what a work order refers to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from workorders.core.exceptions import ConfigurationError, UnknownNameError
from workorders.core.postgres.connection import Connection, fetch_row, find_row, list_rows
from workorders.core.postgres.named_queries import load_queries

if TYPE_CHECKING:  # what creates work orders needs no model
    from workorders.core.definitions.trigger import TriggerDefinition

_QUERIES = load_queries("workorders.core", "sql/triggers.sql")


@dataclass(frozen=True, slots=True)
class Trigger:
    """A source of work orders for one workflow, as the database knows it."""

    id: int
    name: str
    type: str
    workflow_id: int
    workflow: str
    ordering_key: str | None = None
    """Selector of the workflow's ordering keys; None when its runs need no order."""
    definition: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    """As it is stored, with the rules of the trigger."""
    workflow_definition: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    """As it is stored, with the rules of the workflow."""
    created_at: datetime | None = field(default=None, compare=False)
    """When it was registered first."""
    updated_at: datetime | None = field(default=None, compare=False)
    """When its definition changed last."""


def register(connection: Connection, *, name: str, type_: str, workflow: str, definition: Mapping[str, Any]) -> Trigger:
    """Store the definition of a trigger, or update its row, and return the row."""
    connection.execute(_QUERIES["insert_workflow"], {"name": workflow})
    connection.execute(
        _QUERIES["upsert_trigger"],
        {"name": name, "type": type_, "workflow": workflow, "definition": Jsonb(dict(definition))},
    )
    trigger = find(connection, name)
    if trigger.type != type_:
        raise ConfigurationError(
            f"Trigger {trigger.name} exists with type {trigger.type} and cannot become {type_}; nothing was changed; "
            f"give the new trigger another name."
        )
    return trigger


def register_definition(connection: Connection, definition: "TriggerDefinition") -> Trigger:
    """Register a trigger by its file's definition, as `register` does, after the workflow that its file names.

    The caller must have read the files just now: an older definition would replace a newer one.

    Raises:
        ConfigurationError: a trigger of another type has the name; or the workflow's file has a mistake, and no
            earlier definition of the workflow is known.
    """
    from workorders.core import workflows  # noqa: PLC0415 - what creates work orders needs no model

    workflows.register_found(connection, definition.workflow, definition.found_workflow)
    fields = definition.model_dump(mode="json")
    return register(
        connection, name=definition.name, type_=definition.type, workflow=definition.workflow, definition=fields
    )


def find(connection: Connection, name: str) -> Trigger:
    """Return the trigger of that name.

    Raises:
        UnknownNameError: there is none.
    """
    trigger = find_row(connection, Trigger, _QUERIES["find_trigger"], {"name": name})
    if trigger is None:
        raise UnknownNameError(f"No trigger {name} has created work orders here yet; see `workorders triggers list`.")
    return trigger


def find_all(connection: Connection) -> list[Trigger]:
    """Return every trigger that has planned something here, by name."""
    return list_rows(connection, Trigger, _QUERIES["find_triggers"])


def stream_id(connection: Connection, trigger: Trigger, name: str) -> int:
    """Return the number of a stream of the trigger; a new stream is registered."""
    arguments = {"trigger_id": trigger.id, "name": name}
    row = connection.execute(_QUERIES["find_stream"], arguments).fetchone()
    if row is None:
        connection.execute(_QUERIES["insert_stream"], arguments)
        row = fetch_row(connection, _QUERIES["find_stream"], arguments)
    return int(row[0])
