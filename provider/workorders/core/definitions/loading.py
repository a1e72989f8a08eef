"""Reads folders of definitions: the triggers or workflows, and the mistakes, of which none hides another file.

The files are YAML 1.2: the values by its core schema, the line of each, and a sentence for what is not YAML.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode
from ruamel.yaml.resolver import VersionedResolver

from workorders.core.definitions.trigger import TriggerDefinition, trigger_types
from workorders.core.definitions.validation import Lines, problem, validate
from workorders.core.definitions.workflow import WorkflowDefinition, declared_workflows
from workorders.core.exceptions import ConfigurationError, one_line

D = TypeVar("D", TriggerDefinition, WorkflowDefinition)

Source = Path | str
"""A file, or the name of a module of decorated functions."""

_CORE_SCHEMA: Final = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"),
}
"""What a value without quotes may be; everything else, such as `NO` or a date, is a text."""
_PATTERNS: Final = [(f"tag:yaml.org,2002:{name}", re.compile(rf"(?:{form})$")) for name, form in _CORE_SCHEMA.items()]
_INDICATORS: Final = "*&!%@`|>"
"""Characters by which YAML begins something else than a text."""


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


class _CoreResolver(VersionedResolver):
    """Tells types by the core schema, whatever version a file names. The library's own table has dates as well."""

    @property
    def versioned_resolver(self) -> Mapping[None, Any]:
        return {None: _PATTERNS}  # whatever the first character is

    @property
    def processing_version(self) -> tuple[int, int]:
        return 1, 2


def parse(text: str, *, where: str) -> tuple[Any, Lines]:
    """Return the value of a text, and the lines of its parts.

    Raises:
        ConfigurationError: it is not YAML, or has a key twice; the sentence begins with `where` and the line.
    """
    loader = YAML(typ="safe", pure=True)
    loader.Resolver = _CoreResolver
    try:
        node = loader.compose(text)
        lines = dict(_lines(node, (), where, set()))
        return None if node is None else loader.constructor.construct_document(node), lines
    except ConfigurationError:
        raise
    except MarkedYAMLError as error:
        raise ConfigurationError(f"{where}, {_sentence(error, text)}") from error
    except (YAMLError, ValueError) as error:  # a number may have more digits than Python reads
        raise ConfigurationError(f"{where}: this is not YAML: {one_line(error)}") from error


def _lines(node: Node, path: tuple[Any, ...], where: str, known: set[Node]) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Yield the path and the line of everything in a node; of an alias only once."""
    if node in known or not isinstance(node, MappingNode | SequenceNode):
        return
    known.add(node)
    first: dict[tuple[str, str], int] = {}
    for index, entry in enumerate(node.value):
        key, value = entry if isinstance(node, MappingNode) else (None, entry)
        inner = (*path, index if key is None else key.value)
        line = (key or value).start_mark.line + 1
        if key is not None:
            earlier = first.get(name := (key.tag, str(key.value)))
            if earlier is not None:
                raise ConfigurationError(
                    f"{where}, line {line}: {'.'.join(map(str, inner))}: this key is in line {earlier} already, and "
                    f"YAML would ignore one of the two; remove one."
                )
            first[name] = line
        yield inner, line
        yield from _lines(value, inner, where, known)


def _sentence(error: MarkedYAMLError, text: str) -> str:
    is_begun = error.context is not None and error.context.startswith("while scanning")
    mark = error.context_mark if is_begun and error.context_mark else error.problem_mark
    line = next(iter(text.splitlines()[mark.line :]), "")  # the end of the text is after its last line
    before, value = line[: mark.column].strip(), line[mark.column :].split(" #")[0].strip()
    if value[:1] and value[0] in _INDICATORS:
        is_field = re.fullmatch(r"[\w-]+:", before)
        subject, form = (f"{before} ", f": {before} {json.dumps(value)}") if is_field else ("", "")
        return f"line {mark.line + 1}: {subject}YAML does not read a value that begins with {value[0]}; quote it{form}"
    hint = "; quote a text that contains a colon" if error.problem == "mapping values are not allowed here" else ""
    return f"line {mark.line + 1}: this is not YAML: {error.context or 'in this line'}: {error.problem}{hint}."
