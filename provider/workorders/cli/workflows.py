"""`workorders workflows`: the files of a folder, what the database knows of them, and bringing them there."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from workorders.cli.connections import connect, connect_to_write
from workorders.cli.definition_files import read_paths, report
from workorders.cli.options import AsJson, Database
from workorders.cli.output import Column, print_json, print_table
from workorders.core import workflows
from workorders.core.definitions.json_schema import WORKFLOW, published
from workorders.core.definitions.loading import WORKFLOWS
from workorders.core.environment import workflow_modules
from workorders.core.workflows import Workflow

app = typer.Typer(no_args_is_help=True)

_Path = Annotated[Path, typer.Argument(metavar="FILE|FOLDER", exists=True, help="Workflow file, or a folder of them.")]

_COLUMNS: Sequence[Column[Workflow]] = (
    Column("workflow", lambda workflow: workflow.name),
    Column("runs", lambda workflow: (at := workflow.definition) and (at.callable or f"Dag {at.dag_id}")),
    Column("concurrency", lambda workflow: (at := workflow.definition) and (at.concurrency or "no limit"), number=True),
    Column("ordering_key", lambda workflow: (at := workflow.definition) and at.ordering_key),
    Column("retries", lambda workflow: (at := workflow.definition) and at.retries.max_retries, number=True),
    Column("timeout s", lambda workflow: (at := workflow.definition) and f"{at.timeout:g}", number=True),
)


@app.command("list")
def list_(as_json: AsJson = False, database: Database = None) -> None:
    """List the workflows of the database.

    A workflow without an entry under `runs` is named by a trigger, and not registered: its work orders wait.

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
        print_table(_COLUMNS, found)


@app.command()
def check(path: _Path) -> None:
    """Check workflow files, without a database.

    Exits with 1 if a file is wrong.

    \b
    Examples:
      workorders workflows check include/workflows
      workorders workflows check include/workflows/register_event.yaml
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    report(WORKFLOWS, read_paths(WORKFLOWS, [path]))


@app.command()
def register(path: _Path, database: Database = None) -> None:
    """Register workflow files in the database.

    Registers no file if one is wrong. The Dag of a workflow and its triggers register its file; use this
    command without Airflow, or to apply a change immediately. Also registers the modules of decorated functions that
    the environment names.

    \b
    Example:
      workorders workflows register include/workflows
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    found = read_paths(WORKFLOWS, [path], workflow_modules())
    if found.mistakes:
        report(WORKFLOWS, found, "is valid, and was not registered")
    with connect_to_write(database) as connection:
        for definition in found.definitions.values():
            workflows.register(connection, definition)
    report(WORKFLOWS, found, "is registered")


@app.command()
def schema() -> None:
    """Print the JSON Schema of a workflow's file, for editors.

    \b
    Example: write it next to the workflows, and start each file with the comment
      workorders workflows schema > include/workflows/workflow.schema.json
      # yaml-language-server: $schema=workflow.schema.json
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    print(published(WORKFLOW), end="")


def _json(workflow: Workflow) -> dict[str, Any]:
    definition = workflow.definition
    return {
        "name": workflow.name,
        "registered": definition is not None,
        "definition": definition.model_dump(mode="json") if definition else None,
    }
