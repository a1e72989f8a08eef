"""`workorders triggers` and `workflows`: their files, the schemas of these, and what the database knows of them."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from workorders.cli.connections import connect, connect_to_write
from workorders.cli.options import AsJson, Database, DefinitionPath, argument
from workorders.cli.output import note, show_rows
from workorders.core.definitions.json_schema import WORKFLOW, published
from workorders.core.definitions.loading import TRIGGERS, WORKFLOWS, D, Definitions, Kind, Source, label, read
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.environment import workflow_folder, workflow_modules
from workorders.core.exceptions import ConfigurationError

triggers = typer.Typer(no_args_is_help=True)
workflows = typer.Typer(no_args_is_help=True)

_WORKFLOWS: Final[Mapping[str, Callable[[Any], object]]] = {
    "name": lambda row: row.name,
    "registered": lambda row: row.definition is not None,
    "runs": lambda row: row.definition and (row.definition.callable or f"Dag {row.definition.dag_id}"),
    "concurrency": lambda row: row.concurrency,
    "ordering key": lambda row: row.definition and row.definition.ordering_key,
}


@triggers.command("list")
def list_triggers(as_json: AsJson = False, database: Database = None) -> None:
    """List the triggers of the database.

    The first poll of a trigger writes it into the database, and each batch updates it. The definition is in --json.

    Example:
      workorders triggers list
    """
    # Not above: commands that only read files do not wait for the database's driver.
    from workorders.core.triggers import Trigger, find_all  # noqa: PLC0415

    with connect(database) as connection:
        found = find_all(connection)
    show_rows(Trigger, found, as_json=as_json, columns="name type workflow created_at updated_at")


@workflows.command("list")
def list_workflows(as_json: AsJson = False, database: Database = None) -> None:
    """List the workflows of the database.

    A workflow that is not registered is named by a trigger only: its work orders wait. The definition is in --json.

    Example:
      workorders workflows list
    """
    from workorders.core.workflows import Workflow, find_all  # noqa: PLC0415 - as above

    with connect(database) as connection:
        found = find_all(connection)
    show_rows(Workflow, found, as_json=as_json, columns=_WORKFLOWS)


@triggers.command("check")
def check_triggers(path: DefinitionPath) -> None:
    """Check trigger files, without a database.

    Exits with 1 if a file is wrong.

    Example:
      workorders triggers check include/triggers
    """
    report(TRIGGERS, read_paths(TRIGGERS, [path]))


@workflows.command("check")
def check_workflows(path: DefinitionPath) -> None:
    """Check workflow files, without a database.

    Exits with 1 if a file is wrong.

    Example:
      workorders workflows check include/workflows
    """
    report(WORKFLOWS, read_paths(WORKFLOWS, [path]))


@workflows.command()
def apply(path: DefinitionPath, database: Database = None) -> None:
    """Register workflow files in the database.

    Exits with 1, and registers no file, if one is wrong. The Dag of a workflow and its triggers register its file; use
    this command without Airflow, or to apply a change immediately. Also registers the modules of decorated functions
    that the environment names.

    Example:
      workorders workflows apply include/workflows
    """
    from workorders.core.workflows import register  # noqa: PLC0415 - as above

    found = read_paths(WORKFLOWS, [path], workflow_modules())
    if found.mistakes:
        report(WORKFLOWS, found, "is valid, and was not registered")
    with connect_to_write(database) as connection:
        for definition in found.definitions.values():
            register(connection, definition)
    report(WORKFLOWS, found, "is registered")


@triggers.command("schema")
def trigger_schema(type_: Annotated[str, argument("TYPE", "Type of the trigger.")]) -> None:
    """Print the JSON Schema of trigger files, for editors.

    Example: write it next to the triggers, and start each file with the comment
      workorders triggers schema webhook > include/triggers/webhook-trigger.schema.json
      # yaml-language-server: $schema=webhook-trigger.schema.json
    """
    print(published(type_), end="")


@workflows.command("schema")
def workflow_schema() -> None:
    """Print the JSON Schema of a workflow's file, for editors.

    Example: write it next to the workflows, and start each file with the comment
      workorders workflows schema > include/workflows/workflow.schema.json
      # yaml-language-server: $schema=workflow.schema.json
    """
    print(published(WORKFLOW), end="")


def read_paths(kind: Kind[D], paths: Iterable[Path], modules: Iterable[str] = ()) -> Definitions[D]:
    """Read files, those of folders, and modules.

    Raises:
        ConfigurationError: a folder has none.
    """
    sources: list[Source] = []
    for path in paths:
        files = kind.files(path) if path.is_dir() else [path]
        if not files:
            raise ConfigurationError(
                f"The folder {path} has no {kind.name} file, so nothing was read; name another one. Files end in .yaml "
                f"or .yml."
            )
        sources += files
    return read(kind, [*sources, *modules])


def read_workflows(triggers: Path) -> Definitions[WorkflowDefinition]:
    """Read the workflows of the environment, or of the folder `workflows` next to a folder of triggers."""
    folder = workflow_folder(triggers.resolve().parent / "workflows")
    return read(WORKFLOWS, [*WORKFLOWS.files(folder, may_be_missing=True), *workflow_modules()])


def report(kind: Kind[D], found: Definitions[D], verdict: str = "is valid") -> None:
    """Print a line per definition, and the errors; exit with 1 if there are any."""
    for name, source in found.sources.items():
        print(f"{label(source)}: {kind.name} {name} {verdict}.")
    for mistake in found.mistakes:
        note(str(mistake.error))
    if found.mistakes:
        raise typer.Exit(1)
