"""Reads folders of definitions: the triggers or workflows, and the mistakes, of which none hides another file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from workorders.core.definitions.decorator import declared_workflows
from workorders.core.definitions.trigger import TriggerDefinition, trigger_types
from workorders.core.definitions.validation import Lines, problem, validate
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.definitions.yaml_text import parse
from workorders.core.exceptions import ConfigurationError

D = TypeVar("D", TriggerDefinition, WorkflowDefinition)

Source = Path | str
"""A file, or the name of a module of decorated functions."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong in a source."""

    source: Source
    error: ConfigurationError
    """Its text has a line for each wrong field: the file, the line in it, the field, and the right form."""

    def may_define(self, name: str) -> bool:
        """Return whether the source may define this name: a file does only if its text contains the name."""
        try:
            return isinstance(self.source, str) or name in self.source.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return True


@dataclass(frozen=True, slots=True)
class Definitions(Generic[D]):
    """What sources define, and what is wrong in them."""

    definitions: Mapping[str, D]
    """By name, in the order of the sources."""
    sources: Mapping[str, Source]
    """The source of each definition, by the definition's name."""
    mistakes: Sequence[Mistake]

    def find(self, name: str) -> D | ConfigurationError | None:
        """Return the definition of that name, or the mistake of a source that may define it; else None."""
        mistakes = (mistake.error for mistake in self.mistakes if mistake.may_define(name))
        return self.definitions.get(name) or next(mistakes, None)


@dataclass(frozen=True, slots=True)
class Kind(Generic[D]):
    """What the files of a folder define."""

    name: str
    load: Callable[[Path], D]
    """Reads one file."""
    declared: Callable[[str], Iterable[D]] = lambda _module: ()
    """Returns what a module declares."""

    def files(self, folder: Path, *, may_be_missing: bool = False) -> list[Path]:
        """Return the YAML files of a folder, by name."""
        if folder.is_dir():
            return sorted(path for path in folder.iterdir() if path.suffix in {".yaml", ".yml"})
        if may_be_missing:
            return []
        raise ConfigurationError(f"The folder of {self.name} files {folder} does not exist; create it or name another.")


def load_trigger(path: Path) -> TriggerDefinition:
    """Read one trigger file; paths in it are relative to its folder."""
    content, lines = read_mapping(path, form="a trigger file is a mapping with the fields name, type, workflow, ...")
    types = trigger_types()
    found = types.get(str(content.get("type")))
    if found is None:
        sentence = f"expected one of {', '.join(sorted(types))}, got {content.get('type')!r}."
        raise ConfigurationError(problem(path.name, lines, ("type",), sentence))
    model: type[TriggerDefinition] = found.load()
    return validate(content, model, where=path.name, folder=path.parent, lines=lines)


def load_workflow(path: Path) -> WorkflowDefinition:
    """Read one workflow file."""
    content, lines = read_mapping(path, form="a workflow file is a mapping with the fields name, callable, ...")
    return validate(content, WorkflowDefinition, where=path.name, lines=lines)


TRIGGERS: Final = Kind("trigger", load_trigger)
WORKFLOWS: Final = Kind("workflow", load_workflow, declared_workflows)


def read(kind: Kind[D], sources: Iterable[Source]) -> Definitions[D]:
    """Return what sources define. Of two definitions with one name the first counts, and the other is a mistake."""
    definitions: dict[str, D] = {}
    found_in: dict[str, Source] = {}
    mistakes = []
    for source in sources:
        try:
            for definition in [kind.load(source)] if isinstance(source, Path) else kind.declared(source):
                if definition.name in definitions:
                    raise ConfigurationError(
                        f"{label(source)}: name: {kind.name} {definition.name} is already defined in "
                        f"{label(found_in[definition.name])}; give one of them another name."
                    )
                definitions[definition.name], found_in[definition.name] = definition, source
        except ConfigurationError as error:
            mistakes.append(Mistake(source, error))
    return Definitions(definitions, found_in, mistakes)


def label(source: Source) -> str:
    """Return the name of a file, or of a module."""
    return source if isinstance(source, str) else source.name


def read_mapping(path: Path, *, form: str, may_be_empty: bool = False) -> tuple[Mapping[str, Any], Lines]:
    """Return what a YAML file contains, and its lines; nothing for an empty one, which only some kinds may be."""
    try:
        content, lines = parse(path.read_text(encoding="utf-8"), where=path.name)
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path.name}: this is not YAML in UTF-8: {error}") from error
    except OSError as error:
        raise ConfigurationError(f"{path.name}: this file cannot be read: {error.strerror}.") from error
    if content is None and may_be_empty:
        content = {}
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path.name}: {form}")
    return content, lines
