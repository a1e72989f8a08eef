"""`workorders workflows`: the files of a folder, what the database knows of them, and bringing them there."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from workorders.cli.connections import Database, connect, connect_to_write
from workorders.cli.output import AsJson, Column, note, print_json, print_table
from workorders.core import workflows
from workorders.core.definitions.decorator import declared_workflows
from workorders.core.definitions.json_schema import WORKFLOW, published
from workorders.core.definitions.loading import load_workflow, yaml_files
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.environment import WORKFLOW_MODULES_VARIABLE
from workorders.core.exceptions import ConfigurationError
from workorders.core.workflows import Workflow

app = typer.Typer(no_args_is_help=True)

_COLUMNS = (
    Column("workflow"),
    Column("runs"),
    Column("concurrency", number=True),
    Column("ordering_key"),
    Column("retries", number=True),
    Column("timeout s", number=True),
)
_Path = Annotated[Path, typer.Argument(metavar="FILE|FOLDER", exists=True, help="Workflow file, or a folder of them.")]


@dataclass(frozen=True, slots=True)
class Source:
    """A workflow file or a module of decorated functions, read."""

    name: str
    definitions: tuple[WorkflowDefinition, ...]
    error: str | None
    """The errors, one line per field."""


@app.command("list")
def list_(as_json: AsJson = False, database: Database = None) -> None:
    """List the workflows of the database.

    Only a trigger names a workflow without an entry under `runs`: its work orders wait until you register it.

    \b
    Examples:
      workorders workflows list
      workorders workflows list --json
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        found = workflows.find_all(connection)
    if as_json:
        print_json([_json(workflow) for workflow in found])
    else:
        print_table(_COLUMNS, [_cells(workflow) for workflow in found])


@app.command()
def check(path: _Path) -> None:
    """Check workflow files, without a database.

    Exits with 1 if a file is wrong.

    \b
    Examples:
      workorders workflows check include/workflows
      workorders workflows check include/workflows/register_event.yaml
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    _end_if_wrong(read(_files(path)), text=lambda definition: f"workflow {definition.name} is right.")


@app.command()
def register(path: _Path, database: Database = None) -> None:
    """Register workflow files in the database.

    Registers no file if one is wrong. The Dag of a workflow registers its file before it looks for runs; use this
    command without Airflow, or to apply a change immediately. Also registers the modules of decorated functions that
    the environment names.

    \b
    Example:
      workorders workflows register include/workflows
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    modules = [name.strip() for name in os.environ.get(WORKFLOW_MODULES_VARIABLE, "").split(",") if name.strip()]
    sources = read(_files(path), modules)
    if any(source.error for source in sources):
        _end_if_wrong(sources, text=lambda definition: f"workflow {definition.name} is right, and was not registered.")
    with connect_to_write(database) as connection:
        for source in sources:
            for definition in source.definitions:
                workflows.register(connection, definition)
    _end_if_wrong(sources, text=lambda definition: f"workflow {definition.name} is registered.")


@app.command()
def schema() -> None:
    """Print the JSON Schema of a workflow's file, for editors.

    \b
    Example: write it next to the workflows, and start each file with the comment
      workorders workflows schema > include/workflows/workflow.schema.json
      # yaml-language-server: $schema=workflow.schema.json
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    print(published(WORKFLOW), end="")


def read(paths: Sequence[Path], modules: Sequence[str] = ()) -> list[Source]:
    """Read workflow files and modules; a wrong one does not keep the others from being read."""
    first: dict[str, str] = {}
    files = [_read(path.name, partial(_load, path), first) for path in paths]
    return files + [_read(name, partial(declared_workflows, name), first) for name in modules]


def _load(path: Path) -> list[WorkflowDefinition]:
    return [load_workflow(path)]


def _read(name: str, definitions: Callable[[], list[WorkflowDefinition]], first: dict[str, str]) -> Source:
    try:
        found = definitions()
    except ConfigurationError as error:
        return Source(name, (), str(error))
    except OSError as error:
        return Source(name, (), f"{name}: this file cannot be read: {error.strerror}.")
    for definition in found:
        if definition.name in first:
            sentence = (
                f"{name}: name: workflow {definition.name} is already defined in {first[definition.name]}; "
                f"every workflow needs a name of its own."
            )
            return Source(name, (), sentence)
        first[definition.name] = name
    return Source(name, tuple(found), None)


def _files(path: Path) -> list[Path]:
    files = yaml_files(path, "workflow") if path.is_dir() else [path]
    if not files:
        raise ConfigurationError(f"The folder {path} has no workflow file; their names end in .yaml or .yml.")
    return files


def _end_if_wrong(sources: Sequence[Source], text: Callable[[WorkflowDefinition], str]) -> None:
    for source in sources:
        for definition in source.definitions:
            print(f"{source.name}: {text(definition)}")
        if source.error:
            note(source.error)
    if any(source.error for source in sources):
        sys.exit(1)


def _cells(workflow: Workflow) -> tuple[str, ...]:
    definition = workflow.definition
    if definition is None:
        return (workflow.name, *[""] * (len(_COLUMNS) - 1))
    return (
        workflow.name,
        definition.callable or f"Dag {definition.dag_id}",
        str(definition.concurrency or "no limit"),
        str(definition.ordering_key or ""),
        str(definition.retries.attempts),
        str(definition.timeout_seconds),
    )


def _json(workflow: Workflow) -> dict[str, Any]:
    definition = workflow.definition
    return {
        "name": workflow.name,
        "registered": definition is not None,
        "definition": definition.model_dump(mode="json") if definition else None,
    }
