"""Reads the files of triggers and workflows that a command needs, and reports what is wrong in them."""

from collections.abc import Iterable
from pathlib import Path

import typer

from workorders.cli.output import note
from workorders.core.definitions.loading import WORKFLOWS, D, Definitions, Kind, label, read
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.environment import workflow_folder, workflow_modules
from workorders.core.exceptions import ConfigurationError


def read_paths(kind: Kind[D], paths: Iterable[Path], modules: Iterable[str] = ()) -> Definitions[D]:
    """Read files, those of folders, and modules.

    Raises:
        ConfigurationError: a folder has none.
    """
    return read(kind, [*(file for path in paths for file in _files(kind, path)), *modules])


def _files(kind: Kind[D], path: Path) -> list[Path]:
    files = kind.files(path) if path.is_dir() else [path]
    if not files:
        raise ConfigurationError(
            f"The folder {path} has no {kind.name} file, so nothing was read; name another one. Files end in .yaml or "
            f".yml."
        )
    return files


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
