"""Workflows as rows of the database."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from psycopg.types.json import Jsonb

from workorders.core.definitions.trigger import FoundWorkflow
from workorders.core.definitions.validation import validate
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import ConfigurationError, UnknownNameError
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_LOG = logging.getLogger(__name__)
_QUERIES = load_queries("workorders.core", "sql/workflows.sql")


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow's row."""

    id: int
    name: str
    definition: WorkflowDefinition | None
    """None if only a trigger has referred to it so far: its work orders wait, because nothing can run them."""

    @property
    def concurrency(self) -> int | None:
        """Maximum number of runs at the same time; None without a limit."""
        return self.definition.concurrency if self.definition else None


def register(connection: Connection, definition: WorkflowDefinition) -> Workflow:
    """Store a workflow's definition, or update the row, and return the workflow with this definition.

    Not with the row's definition: another version of the deployment, or a user with access to the table, may have
    changed the row since, and a worker must run the callable in its own file.
    """
    connection.execute(
        _QUERIES["upsert_workflow"],
        {
            "name": definition.name,
            "definition": Jsonb(definition.model_dump(mode="json")),
            "concurrency": definition.concurrency,
        },
    )
    return replace(find(connection, definition.name), definition=definition)


def register_found(connection: Connection, name: str, found: FoundWorkflow) -> None:
    """Store the definition that was found for a workflow, so that its ordering key and limits apply to what follows.

    Without one, what an earlier registration stored applies. There is a warning if there is none.

    Raises:
        ConfigurationError: the workflow's file has a mistake, and no earlier definition is known.
    """
    if isinstance(found, WorkflowDefinition):
        register(connection, found)
    elif not any(definition for *_, definition in connection.execute(_QUERIES["find_workflow"], {"name": name})):
        if found is not None:
            raise ConfigurationError(
                f"Workflow {name} is not registered, and its file may be wrong, so its ordering key and its limits are "
                f"unknown. No work order is created before the file is right: {found}"
            ) from found
        _LOG.warning(
            "Workflow %s has no file here and is not registered: its work orders are created without an ordering key "
            "and without limits, and wait. Add its file, or run `workorders workflows apply`.",
            name,
        )


def register_unless_known(connection: Connection, definition: WorkflowDefinition) -> Workflow:
    """Store a definition that may be old only if the row has none; return the workflow with this definition."""
    with suppress(UnknownNameError, ConfigurationError):
        known = find(connection, definition.name)
        if known.definition is not None:
            return replace(known, definition=definition)
    return register(connection, definition)


def find(connection: Connection, name: str) -> Workflow:
    """Return the workflow of that name."""
    return _workflow(*_row(connection, name))


def find_id(connection: Connection, name: str) -> int:
    """Return the number of the workflow of that name, whatever its definition is."""
    return _row(connection, name)[0]


def find_all(connection: Connection) -> list[Workflow]:
    """Return all workflows by name."""
    return [_workflow(*row) for row in connection.execute(_QUERIES["find_workflows"])]


def list_names(connection: Connection) -> list[str]:
    """Return the names of all workflows, sorted, whatever their definitions are."""
    return [name for _, name, _ in connection.execute(_QUERIES["find_workflows"])]


def _row(connection: Connection, name: str) -> tuple[int, str, Mapping[str, Any]]:
    row = connection.execute(_QUERIES["find_workflow"], {"name": name}).fetchone()
    if row is None:
        raise UnknownNameError(f"No workflow {name} is registered here yet; see `workorders workflows list`.")
    return row[0], row[1], row[2]


def _workflow(id_: int, name: str, definition: Mapping[str, Any]) -> Workflow:
    where = f"Workflow {name} in the database"
    return Workflow(id_, name, validate(definition, WorkflowDefinition, where=where) if definition else None)
