"""`workorders triggers`: the files of a folder, and what the database knows of them."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workorders.cli import times
from workorders.cli.connections import Database, connect
from workorders.cli.output import AsJson, Column, note, print_json, print_table
from workorders.core.definitions.json_schema import published
from workorders.core.definitions.loading import load_trigger, yaml_files
from workorders.core.definitions.trigger import TriggerDefinition, trigger_types
from workorders.core.environment import TRIGGERS_VARIABLE
from workorders.core.exceptions import ConfigurationError, WorkOrdersError, one_line

if TYPE_CHECKING:
    from workorders.core.history.work_orders import RegisteredTrigger

app = typer.Typer(invoke_without_command=True)

_COLUMNS = (
    Column("trigger"),
    Column("type"),
    Column("workflow"),
    Column("topics"),
    Column("file"),
    Column("database"),
    Column("registered"),
)


@dataclass(frozen=True, slots=True)
class File:
    """A trigger file, read."""

    path: Path
    definition: TriggerDefinition | None
    """None when the file is wrong."""
    error: str | None
    """The errors, one line per field."""


@dataclass(frozen=True, slots=True)
class Row:
    """A trigger as its file and the database know it."""

    name: str
    type: str
    workflow: str
    topics: tuple[str, ...]
    file: str | None
    database: str
    """`yes`, `older` (another definition; replaced with the next batch), `no` (nothing planned yet), or `?`."""
    registered: "RegisteredTrigger | None"


@app.callback()
def list_(
    context: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Option(
            envvar=TRIGGERS_VARIABLE, metavar="FOLDER", show_default=False, help="Folder of the trigger files."
        ),
    ] = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Show the triggers of the folder and of the database.

    The first batch of a trigger writes it into the database. `older` means that its file has changed since the last
    batch. Exits with 1 if a file is wrong, and prints the errors.

    \b
    Examples:
      workorders triggers
      workorders triggers --folder include/triggers --json
      workorders triggers check include/triggers/orders.yaml
      workorders triggers schema webhook > webhook-trigger.schema.json
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    if context.invoked_subcommand is not None:
        return
    if folder is None:
        raise ConfigurationError(
            f"The folder of the trigger files is not set; give --folder, or set {TRIGGERS_VARIABLE} to their folder."
        )
    files = read(yaml_files(folder, "trigger"))
    registered = _registered(database)
    rows = merge(files, registered)
    errors = [file for file in files if file.error is not None]
    if as_json:
        print_json({"triggers": [_json(row) for row in rows], "errors": [_error_json(file) for file in errors]})
    else:
        print_table(_COLUMNS, [_cells(row) for row in rows])
        for file in errors:
            note(file.error or "")
    if errors:
        sys.exit(1)


@app.command()
def check(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|FOLDER", exists=True, help="Trigger file, or a folder of them.", show_default=False
        ),
    ],
) -> None:
    """Check trigger files, without a database.

    Exits with 1 if a file is wrong.

    \b
    Examples:
      workorders triggers check include/triggers
      workorders triggers check include/triggers/orders.yaml
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    files = read(yaml_files(path, "trigger") if path.is_dir() else [path])
    for file in files:
        if file.definition is not None:
            print(f"{file.path.name}: trigger {file.definition.name} is right.")
        else:
            note(file.error or "")
    if not files:
        raise ConfigurationError(f"The folder {path} has no trigger file; their names end in .yaml or .yml.")
    if any(file.error is not None for file in files):
        sys.exit(1)


@app.command()
def schema(
    type_: Annotated[str, typer.Argument(metavar="TYPE", show_default=False, help="Type of the trigger.")],
) -> None:
    """Print the JSON Schema of trigger files, for editors.

    \b
    Example: write it next to the triggers, and start each file with the comment
      workorders triggers schema webhook > include/triggers/webhook-trigger.schema.json
      # yaml-language-server: $schema=webhook-trigger.schema.json
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    print(published(type_), end="")


def read(paths: Sequence[Path]) -> list[File]:
    """Read trigger files; a wrong one does not keep the others from being read."""
    types = trigger_types()
    seen: dict[str, Path] = {}
    return [_read(path, types, seen) for path in paths]


def _read(path: Path, types: Mapping[str, type[TriggerDefinition]], seen: dict[str, Path]) -> File:
    try:
        definition = load_trigger(path, types)
    except ConfigurationError as error:
        return File(path, None, str(error))
    except OSError as error:
        return File(path, None, f"{path.name}: this file cannot be read: {error.strerror}.")
    first = seen.setdefault(definition.name, path)
    if first != path:
        return File(
            path,
            None,
            f"{path.name}: name: trigger {definition.name} is already defined in {first.name}; "
            f"every trigger needs a name of its own.",
        )
    return File(path, definition, None)


def merge(files: Sequence[File], registered: "Sequence[RegisteredTrigger] | None") -> list[Row]:
    """Return a row a trigger, sorted by name, whether its file, the database or both know it; pure.

    Args:
        files: what was read.
        registered: what the database knows; None when it was not asked.
    """
    known = {row.name: row for row in registered or ()}
    rows = []
    for file in files:
        if file.definition is not None:
            definition = file.definition
            found = known.pop(definition.name, None)
            fields = definition.model_dump(mode="json")
            rows.append(
                Row(
                    definition.name,
                    definition.type,
                    definition.workflow,
                    tuple(fields.get("topics", ())),
                    file.path.name,
                    "?" if registered is None else _database_word(fields, found),
                    found,
                )
            )
    rows += [
        Row(row.name, row.type, row.workflow, tuple(row.definition.get("topics", ())), None, "yes", row)
        for row in known.values()
    ]
    return sorted(rows, key=lambda row: row.name)


def _database_word(fields: Mapping[str, Any], found: "RegisteredTrigger | None") -> str:
    if found is None:
        return "no"
    return "yes" if found.definition == fields else "older"


def _registered(database: str | None) -> "list[RegisteredTrigger] | None":
    """Return what the database knows; None, and a note about it, if the database is unavailable."""
    # Not above: `check` and `schema` need no database, and do not wait for its driver.
    import psycopg  # noqa: PLC0415

    from workorders.core.history import work_orders  # noqa: PLC0415

    try:
        with connect(database) as connection:
            return work_orders.registered_triggers(connection)
    except (WorkOrdersError, psycopg.OperationalError, psycopg.errors.UndefinedTable) as error:
        note(f"The database was not asked: {one_line(error)}")
        return None


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        row.type,
        row.workflow,
        ", ".join(row.topics),
        row.file or "no file",
        row.database,
        times.show(row.registered.created_at) if row.registered else "",
    )


def _json(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "type": row.type,
        "workflow": row.workflow,
        "topics": row.topics,
        "file": row.file,
        "database": None if row.database == "?" else row.database,
        "registered_at": row.registered.created_at if row.registered else None,
        "updated_at": row.registered.updated_at if row.registered else None,
    }


def _error_json(file: File) -> dict[str, Any]:
    return {"file": file.path.name, "error": file.error}
