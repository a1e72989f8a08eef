"""Finds the files of triggers and workflows that a command names, and reports what is wrong in them."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from workorders.cli.output import note
from workorders.core.definitions.loading import D, Kind, Source
from workorders.core.exceptions import ConfigurationError


def find_files(paths: Iterable[Path], kind: Kind[D]) -> list[Path]:
    """Return the files, and those of folders.

    Raises:
        ConfigurationError: a folder has none.
    """
    return [file for path in paths for file in (_in_folder(path, kind) if path.is_dir() else [path])]


def _in_folder(folder: Path, kind: Kind[D]) -> list[Path]:
    files = kind.files(folder)
    if not files:
        raise ConfigurationError(
            f"The folder {folder} has no {kind.name} file, so nothing was read; name another one. Files end in .yaml "
            f"or .yml."
        )
    return files


def report(kind: Kind[D], sources: Sequence[Source[D]], verdict: str = "is valid") -> None:
    """Print a line per definition, and the errors; exit with 1 if there are any."""
    for source in sources:
        for definition in source.definitions:
            print(f"{source.path.name}: {kind.name} {definition.name} {verdict}.")
        if source.mistake:
            note(str(source.mistake))
    if any(source.mistake for source in sources):
        sys.exit(1)
