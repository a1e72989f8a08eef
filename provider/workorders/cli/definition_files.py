"""Reads the files of triggers and workflows, and reports what is wrong in them."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from workorders.cli.output import note
from workorders.core.definitions.loading import yaml_files
from workorders.core.definitions.unique_names import require_unique_name
from workorders.core.exceptions import ConfigurationError


class Named(Protocol):
    """The definition of a trigger or a workflow."""

    @property
    def name(self) -> str:
        """Unique among those of its kind."""


D = TypeVar("D", bound=Named)


@dataclass(frozen=True, slots=True)
class Source(Generic[D]):
    """A file, or a module of decorated functions, that was read."""

    name: str
    definitions: Sequence[D]
    error: str | None = None
    """The errors, one line per field."""


def find_files(path: Path, kind: str) -> list[Path]:
    """Return a file, or the files of a folder.

    Raises:
        ConfigurationError: the folder has none.
    """
    files = yaml_files(path, kind) if path.is_dir() else [path]
    if not files:
        raise ConfigurationError(
            f"The folder {path} has no {kind} file, so nothing was read; name another one. Files end in .yaml or .yml."
        )
    return files


def read(kind: str, loaders: Mapping[str, Callable[[], Sequence[D]]]) -> list[Source[D]]:
    """Read definitions; a source with an error does not keep the others from being read.

    Args:
        kind: what the sources define, in a word.
        loaders: what loads the definitions of each source, by its name.
    """
    taken: dict[str, str] = {}
    return [_read(kind, name, load, taken) for name, load in loaders.items()]


def _read(kind: str, name: str, load: Callable[[], Sequence[D]], taken: dict[str, str]) -> Source[D]:
    try:
        definitions = load()
        for definition in definitions:
            require_unique_name(kind, definition.name, name, taken)
    except ConfigurationError as error:
        return Source(name, (), str(error))
    except OSError as error:
        return Source(name, (), f"{name}: this file cannot be read: {error.strerror}.")
    return Source(name, definitions)


def report(kind: str, sources: Sequence[Source[D]], verdict: str = "is valid") -> None:
    """Print a line per definition, and the errors; exit with 1 if there are any."""
    for source in sources:
        for definition in source.definitions:
            print(f"{source.name}: {kind} {definition.name} {verdict}.")
        if source.error:
            note(source.error)
    if any(source.error for source in sources):
        sys.exit(1)
