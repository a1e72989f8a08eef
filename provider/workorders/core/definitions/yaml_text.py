"""Reads YAML 1.2: the values by its core schema, the line of each, and a sentence for what is not YAML."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode
from ruamel.yaml.resolver import VersionedResolver

from workorders.core.definitions.validation import Lines
from workorders.core.exceptions import ConfigurationError, one_line

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
