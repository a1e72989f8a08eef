"""Triggers and workflows out of YAML files, and out of modules of decorated functions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from workorders.core.definitions.decorator import declared_workflows
from workorders.core.definitions.trigger import FoundWorkflow, TriggerDefinition, trigger_types
from workorders.core.definitions.validation import Lines, problem, validate
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.definitions.yaml_text import parse
from workorders.core.exceptions import ConfigurationError

D = TypeVar("D", TriggerDefinition, WorkflowDefinition)

Sources = Mapping[Path, Callable[[], Sequence[D]]]
"""What loads the definitions of each file, and of each module, whose name is a path without a suffix."""


@dataclass(frozen=True, slots=True)
class Source(Generic[D]):
    """A file, or a module of decorated functions, that was read."""

    path: Path
    definitions: Sequence[D]
    mistake: ConfigurationError | None = None
    """Its text has a line for each wrong field."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[D]):
    """What the files of a folder define."""

    name: str
    load: Callable[[Path], D]
    """Reads one file."""

    def files(self, folder: Path, *, may_be_missing: bool = False) -> list[Path]:
        """Return the YAML files of a folder, by name.

        Raises:
            ConfigurationError: the folder does not exist, and must.
        """
        if not folder.is_dir():
            if may_be_missing:
                return []
            raise ConfigurationError(
                f"The folder of {self.name} files {folder} does not exist; create it or name another."
            )
        return sorted(path for path in folder.iterdir() if path.suffix in {".yaml", ".yml"})

    def sources(self, files: Iterable[Path]) -> dict[Path, Callable[[], Sequence[D]]]:
        """Return what loads each of these files."""
        return {file: partial(self._load, file) for file in files}

    def read_files(self, files: Iterable[Path]) -> list[Source[D]]:
        """Read files; one with a mistake does not keep the others from being read."""
        return self.read(self.sources(files))

    def read(self, sources: Sources[D]) -> list[Source[D]]:
        """Read definitions; a source with a mistake does not keep the others from being read."""
        taken: dict[str, str] = {}
        return [self._read(path, load, taken) for path, load in sources.items()]

    def _load(self, file: Path) -> Sequence[D]:
        return [self.load(file)]

    def _read(self, path: Path, load: Callable[[], Sequence[D]], taken: dict[str, str]) -> Source[D]:
        definitions: list[D] = []
        try:
            for definition in load():
                if definition.name in taken:
                    raise ConfigurationError(
                        f"{path.name}: name: {self.name} {definition.name} is already defined in "
                        f"{taken[definition.name]}; every {self.name} needs a name of its own."
                    )
                taken[definition.name] = path.name
                definitions.append(definition)
        except ConfigurationError as error:
            return Source(path, definitions, error)
        except OSError as error:
            return Source(path, (), ConfigurationError(f"{path.name}: this file cannot be read: {error.strerror}."))
        return Source(path, definitions)


def load_trigger(path: Path) -> TriggerDefinition:
    """Read one trigger file.

    Raises:
        ConfigurationError: the file is no YAML mapping, its type is unknown, or a field is wrong.
    """
    content, lines = read_mapping(path, form="a trigger file is a mapping with the fields name, type, workflow, ...")
    return parse_trigger(content, trigger_types(), where=path.name, folder=path.parent, lines=lines)


def parse_trigger(
    content: Mapping[str, Any],
    types: Mapping[str, type[TriggerDefinition]],
    *,
    where: str,
    folder: Path | None = None,
    lines: Lines = MappingProxyType({}),
) -> TriggerDefinition:
    """Validate a trigger's fields by the model of its type; paths in it are relative to `folder`.

    Raises:
        ConfigurationError: with a line for each wrong field.
    """
    model = types.get(str(content.get("type")))
    if model is None:
        sentence = f"expected one of {', '.join(sorted(types))}, got {content.get('type')!r}."
        raise ConfigurationError(problem(where, lines, ("type",), sentence))
    return validate(content, model, where=where, folder=folder, lines=lines)


def load_workflow(path: Path) -> WorkflowDefinition:
    """Read one workflow file.

    Raises:
        ConfigurationError: the file is no YAML mapping, or a field is wrong.
    """
    content, lines = read_mapping(path, form="a workflow file is a mapping with the fields name, callable, ...")
    return parse_workflow(content, where=path.name, lines=lines)


def parse_workflow(
    content: Mapping[str, Any], *, where: str, lines: Lines = MappingProxyType({})
) -> WorkflowDefinition:
    """Validate a workflow's fields.

    Raises:
        ConfigurationError: with a line for each wrong field.
    """
    return validate(content, WorkflowDefinition, where=where, lines=lines)


TRIGGERS: Final = Kind("trigger", load_trigger)
WORKFLOWS: Final = Kind("workflow", load_workflow)


def workflow_sources(files: Iterable[Path], modules: Iterable[str]) -> Sources[WorkflowDefinition]:
    """Return what loads workflow files, and modules whose decorated functions are workflows."""
    # A module is no file; what stands for it is named after it.
    declared = {Path(module.replace(".", "_")): partial(declared_workflows, module) for module in modules}
    return {**WORKFLOWS.sources(files), **declared}


class Workflows:
    """Finds workflows by name; the sources are read when the first one is looked up."""

    def __init__(self, sources: Sources[WorkflowDefinition]) -> None:
        self._sources = sources

    @cached_property
    def _read(self) -> list[Source[WorkflowDefinition]]:
        return WORKFLOWS.read(self._sources)

    def find(self, name: str) -> FoundWorkflow:
        """Return the definition of that name, or the mistake of a source that may define it; else None."""
        found = (definition for source in self._read for definition in source.definitions if definition.name == name)
        mistakes = (source.mistake for source in self._read if source.mistake and _may_define(source.path, name))
        return next(found, next(mistakes, None))


def _may_define(path: Path, name: str) -> bool:
    """Return whether a source with a mistake may define a workflow: a file does only if its text has the name."""
    try:
        return name in path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # it stands for a module, or cannot be read
        return True


def read_mapping(path: Path, *, form: str, may_be_empty: bool = False) -> tuple[Mapping[str, Any], Lines]:
    """Return what a YAML file contains, and its lines; nothing for an empty one, which only some kinds may be.

    Raises:
        ConfigurationError: the file is no YAML mapping; `form` then describes what it should be.
    """
    try:
        content, lines = parse(path.read_text(encoding="utf-8"), where=path.name)
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path.name}: this is not YAML in UTF-8: {error}") from error
    if content is None and may_be_empty:
        content = {}
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path.name}: {form}")
    return content, lines
