"""`workorders triggers`: those of the database, their files, and their schemas."""

from typing import Annotated

import typer

from workorders.cli.connections import connect
from workorders.cli.definition_files import read_paths, report
from workorders.cli.options import AsJson, Database, DefinitionPath, argument
from workorders.cli.output import show_rows
from workorders.core.definitions.json_schema import published
from workorders.core.definitions.loading import TRIGGERS

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False, database: Database = None) -> None:
    """List the triggers of the database.

    The first poll of a trigger writes it into the database, and each batch updates it. The definition is in --json.

    Examples:
      workorders triggers list
      workorders triggers list --json
    """
    # Not above: `check` and `schema` need no database, and do not wait for its driver.
    from workorders.core.triggers import Trigger, find_all  # noqa: PLC0415

    with connect(database) as connection:
        found = find_all(connection)
    show_rows(Trigger, found, as_json=as_json, columns="name type workflow created_at updated_at")


@app.command()
def check(path: DefinitionPath) -> None:
    """Check trigger files, without a database.

    Exits with 1 if a file is wrong.

    Examples:
      workorders triggers check include/triggers
      workorders triggers check include/triggers/orders.yaml
    """
    report(TRIGGERS, read_paths(TRIGGERS, [path]))


@app.command()
def schema(type_: Annotated[str, argument("TYPE", "Type of the trigger.")]) -> None:
    """Print the JSON Schema of trigger files, for editors.

    Example: write it next to the triggers, and start each file with the comment
      workorders triggers schema webhook > include/triggers/webhook-trigger.schema.json
      # yaml-language-server: $schema=webhook-trigger.schema.json
    """
    print(published(type_), end="")
