"""`workorders triggers`: the files of a folder, and what the database knows of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from workorders.cli.connections import connect
from workorders.cli.definition_files import read_paths, report
from workorders.cli.options import AsJson, Database, DefinitionPath, Folder, argument
from workorders.cli.output import note, print_json, print_table
from workorders.core.definitions.json_schema import published
from workorders.core.definitions.loading import TRIGGERS, Definitions, label, read_folder
from workorders.core.definitions.trigger import TriggerDefinition
from workorders.core.environment import TRIGGERS_VARIABLE
from workorders.core.exceptions import ConfigurationError, WorkOrdersError, one_line

if TYPE_CHECKING:
    from workorders.core.history.work_orders import RegisteredTrigger

app = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class Row:
    """A trigger as its file and the database know it."""

    name: str
    type: str
    workflow: str
    topics: Sequence[str]
    file: str | None
    database: str | None
    """`yes`, `older` (another definition; replaced with the next batch), `no` (nothing planned yet), None: unknown."""
    registered_at: datetime | None
    updated_at: datetime | None


@app.command("list")
def list_(folder: Folder = None, as_json: AsJson = False, database: Database = None) -> None:
    """List the triggers of the folder and of the database.

    The first poll of a trigger writes it into the database. `older` means that its file has changed since the last
    batch. Exits with 1 if a file is wrong, and prints the errors.

    Examples:
      workorders triggers list
      workorders triggers list --folder include/triggers --json
    """
    if folder is None:
        raise ConfigurationError(
            f"The folder of the trigger files is not set; give --folder, or set {TRIGGERS_VARIABLE} to their folder."
        )
    found = read_folder(TRIGGERS, folder)
    rows = merge(found, _registered(database))
    errors = [{"file": label(mistake.source), "error": str(mistake.error)} for mistake in found.mistakes]
    if as_json:
        print_json({"triggers": rows, "errors": errors})
    else:
        print_table(Row, rows)
        for error in errors:
            note(error["error"])
    if errors:
        raise typer.Exit(1)


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


def merge(files: Definitions[TriggerDefinition], registered: "Sequence[RegisteredTrigger] | None") -> list[Row]:
    """Return a row per trigger of a file, of the database, or of both, sorted by name; pure."""
    stored = {row.name: row for row in registered or ()}
    fields = {row.name: {**row.definition, "type": row.type, "workflow": row.workflow} for row in stored.values()}
    fields |= {name: definition.model_dump(mode="json") for name, definition in files.definitions.items()}
    rows = []
    for name, given in sorted(fields.items()):
        found = stored.get(name)
        file = label(files.sources[name]) if name in files.sources else None
        is_same = found is not None and (file is None or found.definition == given)
        database = None if registered is None else "no" if found is None else "yes" if is_same else "older"
        times = (found.created_at, found.updated_at) if found else (None, None)
        rows.append(Row(name, given["type"], given["workflow"], given.get("topics", ()), file, database, *times))
    return rows


def _registered(database: str | None) -> "list[RegisteredTrigger] | None":
    """Return what the database knows; None, and a note, if the database is unavailable."""
    # Not above: `check` and `schema` need no database, and do not wait for its driver.
    import psycopg  # noqa: PLC0415

    from workorders.core.history import work_orders  # noqa: PLC0415

    try:
        with connect(database) as connection:
            return work_orders.registered_triggers(connection)
    except (WorkOrdersError, psycopg.OperationalError, psycopg.errors.UndefinedTable) as error:
        note(f"The database was not read, so only the files are listed: {one_line(error)}")
        return None
