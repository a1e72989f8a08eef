"""A JSON Schema in a trigger's file: its path, or the schema itself, which is what the database keeps.

References and combinations of a few bytes can make a schema look at one value exponentially often. The validator has no
limit: neither of steps, nor of its stack, whose overflow ends the process. So the looks are counted before.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
from pydantic import PlainValidator, ValidationInfo, WithJsonSchema

from workorders.core.exceptions import one_line

FOLDER: Final = "folder"
"""The key in the context of a validation under which the folder of the trigger's file is."""
_BACKTRACKS: Final = 5000
"""After so many steps back, a pattern does not match; a hostile text must not hold a partition."""
_PATTERN_BYTES: Final = 64 * 1024 * 1024
"""Memory of all regular expressions of a schema; one has at most a sixth of it."""
_PATTERN_CHARACTERS: Final = 128 * 1024
"""Of all regular expressions of a schema: to read them takes 350 times as many bytes."""

_BASE: Final = "json-schema:///"
_METASCHEMAS: Final = ("https://json-schema.org/", "http://json-schema.org/")
_SAME: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
"""Keywords whose schemas look at the same value."""
_EACH: Final = (
    *("patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("additionalItems", "unevaluatedItems", "contains"),
)
"""Keywords whose schemas may all look at the same part of a value."""
_ONE_OF: Final = ("properties", "prefixItems", "items")
"""Keywords of whose schemas one looks at a part of a value."""
_BY_NAME: Final = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_MAX_NODES: Final = 100_000

_MAX_STEPS: Final = 64
"""Of references and combinations between two levels of a value."""
_MAX_STACK: Final = 30_000
"""Such steps at once; the stack of a thread holds twice as many."""
_MAX_LOOKS: Final = 100_000_000
"""At all values of a message together; a check takes about ten nanoseconds."""
_SLOW_LOOKS: Final = 5000
"""A look by a regular expression that steps back."""
_BYTES_PER_LOOK: Final = 16
_ENTRIES_PER_LOOK: Final = 8
_MAX_LEVELS: Final = 1024
_DRAFT_4: Final = 4
_MAX_COUNTED: Final = 2_000_000


class Validator:
    """Validates values by a JSON Schema in bounded time. It never fetches anything."""

    def __init__(self, schema: Any, references: Sequence[tuple[str, Any]] = ()) -> None:
        """Compile a schema.

        Args:
            schema: the schema, of the draft that it names, or else 2020-12.
            references: names and contents of the schemas that it refers to.

        Raises:
            ValueError: it is no JSON Schema, or refers to something else, or to itself in a circle.
        """
        import jsonschema_rs  # noqa: PLC0415 - an extra that few triggers need

        documents = [schema, *(document for _, document in references)]
        patterns = {pattern for node in _objects_in(documents) for pattern in _patterns_of(node)}
        if sum(map(len, patterns)) > _PATTERN_CHARACTERS:
            raise ValueError(f"its regular expressions have more than {_PATTERN_CHARACTERS} characters")
        size = _PATTERN_BYTES // max(6, len(patterns))
        slow = {pattern for pattern in patterns if not _is_linear(jsonschema_rs, pattern, size)}
        #: Tells whether the time to validate a value has a bound.
        self.cost = SchemaCost(schema, references, slow)
        options: dict[str, Any] = {
            "pattern_options": jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS, size_limit=size)
        }
        if references:
            options |= {"registry": jsonschema_rs.Registry(list(references)), "base_uri": _BASE}
        #: The library's validator, for values that the cost allows.
        self.rules = jsonschema_rs.validator_for(schema, offline=True, **options)


@dataclass(slots=True)
class _Node:
    looks: int
    same: list[int] = field(default_factory=list)
    parts: list[list[int]] = field(default_factory=list)
    """At most one of each list looks at the same part."""


class SchemaCost:
    """Counts the looks of a schema at one value, which is any number of levels deep in a message."""

    def __init__(self, schema: Any, references: Sequence[tuple[str, Any]], slow_patterns: Collection[str]) -> None:
        """Walk a schema with regular expressions of which the slow ones may step back; see `Validator`.

        Raises:
            ValueError: it refers to what is not there, or to itself without a part of the value between; the text is a
                clause.
        """
        import jsonschema_rs  # noqa: PLC0415 - an extra that few triggers need

        self._library, self._slow_patterns = jsonschema_rs, slow_patterns
        self._nodes: list[_Node] = []
        self._waiting: list[tuple[int, _Node, dict[str, Any], Any]] = []
        self._found: dict[tuple[str, str], list[int]] = {}
        self._walk(schema, jsonschema_rs.Registry([(_BASE, schema), *references]).resolver(_BASE))
        steps = self._steps()
        self._max_steps, self._order = max(steps.values(), default=0), list(steps)
        self._level = dict.fromkeys(steps, 0)
        self._looks: list[int] = []
        looks = self._looks_within(_MAX_LEVELS) if self._max_steps * _MAX_LEVELS <= _MAX_STACK else _MAX_LOOKS
        self._free_bytes = _MAX_LOOKS // looks
        """A shorter value is allowed, however deep it is."""

    def allows(self, payload: bytes, value: Any) -> bool:
        """Return whether a value, of which the bytes are given too, can be validated in bounded time."""
        if len(payload) < self._free_bytes:
            return True
        size = sum(map(payload.count, (b"[", b"{", b","))) + len(payload) // _BYTES_PER_LOOK + 1
        levels = _levels(value)
        return self._max_steps * levels <= _MAX_STACK and self._looks_within(levels) * size <= _MAX_LOOKS

    def _looks_within(self, levels: int) -> int:
        """Return the looks at the value with the most of them that is at most so many levels deep."""
        while len(self._looks) <= levels:
            if len(self._looks) * len(self._nodes) > _MAX_COUNTED:
                return _MAX_LOOKS + 1
            level: dict[int, int] = {}
            for key in self._order:
                node = self._nodes[key]
                inner = sum(max((self._level[part] for part in among), default=0) for among in node.parts)
                same = sum(level[one] for one in node.same)
                level[key] = min(_MAX_LOOKS + 1, max(node.looks, inner) + same)
            looks = level.get(0, 1)
            is_last = level == self._level or looks > _MAX_LOOKS
            self._looks += [looks] * (_MAX_LEVELS + 1 - len(self._looks) if is_last else 1)
            self._level = level
        return self._looks[levels]

    def _own_looks(self, node: dict[str, Any]) -> int:
        entries = sum(len(value) for value in node.values() if isinstance(value, list | dict))
        slow = sum(pattern in self._slow_patterns for pattern in _patterns_of(node))
        return 1 + entries // _ENTRIES_PER_LOOK + _SLOW_LOOKS * slow

    def _steps(self) -> dict[int, int]:
        """Return the references and combinations below each schema, which follows all that look at the same value."""
        steps: dict[int, int] = {}
        with suppress(CycleError):
            for key in TopologicalSorter({key: node.same for key, node in enumerate(self._nodes)}).static_order():
                steps[key] = 1 + max((steps[one] for one in self._nodes[key].same), default=0)
        if len(steps) < len(self._nodes) or max(steps.values(), default=0) >= _MAX_STEPS:
            raise ValueError(
                f"it refers to itself, or in more than {_MAX_STEPS} steps, without a part of the value between"
            )
        return steps

    def _walk(self, schema: Any, resolver: Any) -> None:
        """Visit all schemas that look at a value, a schema that is referred to once for each way to name it."""
        dynamic: list[int] = []
        follows: list[_Node] = []
        self._add([schema], resolver)
        while self._waiting:
            place, node, content, resolver = self._waiting.pop()
            resolver = self._within(content, resolver)
            node.same = [one for keyword in _SAME for one in self._add(_below(content, keyword), resolver)]
            node.same += [one for keyword in _REFERENCES for one in self._target(content.get(keyword), resolver)]
            node.parts = [[one] for keyword in _EACH for one in self._add(_below(content, keyword), resolver)]
            node.parts += [self._add(_below(content, keyword), resolver) for keyword in _ONE_OF]
            if content.keys() & {"$dynamicAnchor", "$recursiveAnchor"}:
                dynamic.append(place)
            if content.keys() & {"$dynamicRef", "$recursiveRef"}:
                follows.append(node)
            # These look at all that the others have looked at, by asking them once more.
            node.same *= 1 + ("unevaluatedProperties" in content) + ("unevaluatedItems" in content)
        for node in follows:
            node.same += dynamic

    def _add(self, contents: Iterable[Any], resolver: Any) -> list[int]:
        """Return the places of schemas that are still to be visited; those that are no objects look at nothing."""
        first = len(self._nodes)
        for content in contents:
            if isinstance(content, dict):
                self._waiting.append((len(self._nodes), _Node(self._own_looks(content)), content, resolver))
                self._nodes.append(self._waiting[-1][1])
        if len(self._nodes) > _MAX_NODES:
            raise ValueError(f"it has more than {_MAX_NODES} schemas, counting each way to refer to one")
        return list(range(first, len(self._nodes)))

    def _within(self, content: dict[str, Any], resolver: Any) -> Any:
        """Return what resolves the references in a schema, which may have its own address."""
        if isinstance(content.get("$id", content.get("id")), str):
            own = content.get("id" if resolver.lookup("#").draft == _DRAFT_4 else "$id")
            with suppress(self._library.ReferencingError, TypeError):
                return resolver.lookup(own).resolver
        return resolver

    def _target(self, reference: Any, resolver: Any) -> list[int]:
        if not isinstance(reference, str):
            return []
        name = (resolver.base_uri, reference)
        if name not in self._found:
            try:
                found = resolver.lookup(reference)
            except self._library.ReferencingError as error:
                if reference.startswith(_METASCHEMAS):
                    return []
                raise ValueError("it refers to a schema that is neither in it nor among its references") from error
            self._found[name] = self._add([found.contents], found.resolver)
        return self._found[name]


def _objects_in(document: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a document, also those that are no schemas."""
    waiting = [document]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
        if isinstance(node, dict | list):
            waiting += node.values() if isinstance(node, dict) else node


def _patterns_of(node: dict[str, Any]) -> Iterator[str]:
    """Yield the regular expressions of a schema without those in it."""
    if isinstance(node.get("pattern"), str):
        yield node["pattern"]
    if isinstance(node.get("patternProperties"), dict):
        yield from node["patternProperties"]


def _below(node: dict[str, Any], keyword: str) -> list[Any]:
    """Return the schemas of a keyword, which has one, or a list of them, or an object."""
    value = node.get(keyword)
    if keyword in _BY_NAME:
        return list(value.values()) if isinstance(value, dict) else []
    return value if isinstance(value, list) else [value]


def _levels(value: Any) -> int:
    """Return how deeply the arrays and objects of a value are nested."""
    levels, inner = 0, [value]
    while inner := [one for one in inner if isinstance(one, list | dict)]:
        inner = [part for one in inner for part in (one.values() if isinstance(one, dict) else one)]
        levels += 1
    return levels


def _is_linear(jsonschema_rs: Any, pattern: str, size: int) -> bool:
    options = jsonschema_rs.RegexOptions(size_limit=size)
    try:
        jsonschema_rs.validator_for({"pattern": pattern}, offline=True, pattern_options=options)
    except ValueError:
        return False
    return True


def _schema(value: Any, info: ValidationInfo) -> dict[str, Any]:
    if isinstance(value, str):
        value = _read(Path((info.context or {}).get(FOLDER, "."), value))
    if not isinstance(value, Mapping):
        raise ValueError(f"expected the path of a JSON Schema file, or a JSON Schema, got {value!r}.")
    try:
        Validator(dict(value))
    except ImportError as error:
        raise ValueError("expected the package's extra `formats`, which checks values; it is not installed.") from error
    except Exception as error:
        text = one_line(str(error).partition("\n")[0])
        raise ValueError(
            f"expected a JSON Schema that refers to nothing outside itself, got one with: {text}"
        ) from error
    return dict(value)


def _read(path: Path) -> Any:
    try:
        return orjson.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"expected the path of a JSON Schema file, got {path} ({error.strerror}).") from error
    except orjson.JSONDecodeError as error:
        raise ValueError(f"expected a JSON Schema file, but {path} is no JSON ({error}).") from error


JsonSchemaField = Annotated[
    dict[str, Any], PlainValidator(_schema), WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]})
]
"""A JSON Schema; a path is relative to the folder of the trigger's file."""
