"""`workorders workflows` and `steps`: files of workflows, what the database knows of them, and the table of steps."""

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer

from workorders.cli.connections import airflow_database_url, connect, connect_to_write
from workorders.cli.definition_files import read_paths, report
from workorders.cli.options import AsJson, Database, DefinitionPath, option
from workorders.cli.output import show_rows
from workorders.core import workflows
from workorders.core.definitions.json_schema import WORKFLOW, published
from workorders.core.definitions.loading import WORKFLOWS
from workorders.core.environment import workflow_modules
from workorders.core.worker.user_database import CREATE_TABLE
from workorders.core.workflows import Workflow

app = typer.Typer(no_args_is_help=True)
steps = typer.Typer(no_args_is_help=True)

_COLUMNS: Final[Mapping[str, Callable[[Workflow], object]]] = {
    "name": lambda row: row.name,
    "registered": lambda row: row.definition is not None,
    "runs": lambda row: row.definition and (row.definition.callable or f"Dag {row.definition.dag_id}"),
    "concurrency": lambda row: row.concurrency,
    "ordering key": lambda row: row.definition and row.definition.ordering_key,
}


@app.command("list")
def list_(as_json: AsJson = False, database: Database = None) -> None:
    """List the workflows of the database.

    A workflow that is not registered is named by a trigger only: its work orders wait. The definition is in --json.

    Examples:
      workorders workflows list
      workorders workflows list --json
    """
    with connect(database) as connection:
        found = workflows.find_all(connection)
    show_rows(Workflow, found, as_json=as_json, columns=_COLUMNS)


@app.command()
def check(path: DefinitionPath) -> None:
    """Check workflow files, without a database.

    Exits with 1 if a file is wrong.

    Examples:
      workorders workflows check include/workflows
      workorders workflows check include/workflows/register_event.yaml
    """
    report(WORKFLOWS, read_paths(WORKFLOWS, [path]))


@app.command()
def apply(path: DefinitionPath, database: Database = None) -> None:
    """Register workflow files in the database.

    Exits with 1, and registers no file, if one is wrong. The Dag of a workflow and its triggers register its file; use
    this command without Airflow, or to apply a change immediately. Also registers the modules of decorated functions
    that the environment names.

    Example:
      workorders workflows apply include/workflows
    """
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

    Example: write it next to the workflows, and start each file with the comment
      workorders workflows schema > include/workflows/workflow.schema.json
      # yaml-language-server: $schema=workflow.schema.json
    """
    print(published(WORKFLOW), end="")


@steps.command("create-table")
def create_table(
    connection: Annotated[
        str, option("CONNECTION", "Airflow connection that the workflow names as its `database`.", "--connection")
    ] = "",
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL, and change nothing.")] = False,
) -> None:
    """Create the table `workorders_steps` unless it exists.

    context.transaction records there what it has committed. The user of the connection owns the table; another user
    needs SELECT, INSERT, UPDATE, and DELETE.

    Examples:
      workorders steps create-table --connection shop_db
      workorders steps create-table --sql | psql "$SHOP_DB"
    """
    if sql:
        print(CREATE_TABLE)
        return
    if not connection:
        raise typer.BadParameter("give --connection or --sql.")
    with connect_to_write(airflow_database_url(connection)) as database:
        database.execute(CREATE_TABLE)
    print(f"The database of the Airflow connection {connection} has the table workorders_steps.")
