"""How often a JSON Schema looks at one value: references and combinations of a few bytes can make it exponential.

The validator has no limit of its own: neither of steps, nor of its stack, whose overflow ends the process.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

_BASE: Final = "https://-/"
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
_DYNAMIC: Final = ("$dynamicRef", "$recursiveRef")

_MAX_STEPS: Final = 64
"""Of references and combinations between two levels of a value."""
_MAX_STACK: Final = 30_000
"""Such steps at once; the stack of a thread holds twice as many."""
_MAX_LOOKS: Final = 100_000_000
"""At all values of a message together; a look takes some ten nanoseconds."""
_SLOW_LOOKS: Final = 5000
"""A look by a regular expression that steps back."""
_BYTES_PER_LOOK: Final = 16
_ENTRIES_PER_LOOK: Final = 8
_MAX_LEVELS: Final = 1024
_MAX_COUNTED: Final = 2_000_000


class _Node(NamedTuple):
    looks: int
    same: list[int]
    parts: list[list[int]]
    """At most one of each list looks at the same part."""


class SchemaCost:
    """Counts the looks of a schema at one value, which is any number of levels deep in a message."""

    def __init__(self, schema: Any, references: Sequence[tuple[str, Any]], slow_patterns: Collection[str]) -> None:
        """Walk a schema.

        Args:
            schema: the schema.
            references: names and contents of the schemas that it refers to.
            slow_patterns: its regular expressions that may step back.

        Raises:
            ValueError: it refers to what is not there, or to itself without a part of the value between; the text is a
                clause.
        """
        self._slow_patterns = slow_patterns
        self._places = defaultdict[str, list[Any]](list)
        self._bases: dict[int, tuple[str, ...]] = {}
        self._dynamic: list[Any] = []
        for name, document in (("", schema), *references):
            self._name_places(document, urljoin(_BASE, name))
        self._root, self._nodes = id(schema), dict[int, _Node]()
        waiting = _schemas([schema])
        while waiting:
            node = waiting.pop()
            if id(node) not in self._nodes:
                same, parts = self._same(node), _parts(node)
                self._nodes[id(node)] = _Node(self._own_looks(node), [*map(id, same)], [[*map(id, p)] for p in parts])
                waiting += [*same, *(part for among in parts for part in among)]
        self._steps: dict[int, int] = {}
        self._max_steps = max((self._steps_of(key, ()) for key in self._nodes), default=0)
        self._level = dict.fromkeys(self._nodes, 0)
        self._looks: list[int] = []

    def allows(self, payload: bytes, value: Any) -> bool:
        """Return whether a value, of which the bytes are given too, can be validated in bounded time."""
        brackets = payload.count(b"[") + payload.count(b"{")
        size = brackets + payload.count(b",") + len(payload) // _BYTES_PER_LOOK + 1
        return self._allows(size, min(brackets, _MAX_LEVELS)) or self._allows(size, _levels(value))

    def _allows(self, size: int, levels: int) -> bool:
        return self._max_steps * levels <= _MAX_STACK and self._looks_within(levels) * size <= _MAX_LOOKS

    def _looks_within(self, levels: int) -> int:
        """Return the looks at the value with the most of them that is at most so many levels deep."""
        while len(self._looks) <= levels:
            if len(self._looks) * len(self._nodes) > _MAX_COUNTED:
                return _MAX_LOOKS + 1
            level: dict[int, int] = {}
            for key in self._nodes:
                self._looks_of(key, level)
            looks = level.get(self._root, 1)
            is_last = level == self._level or looks > _MAX_LOOKS
            self._looks += [looks] * (_MAX_LEVELS + 1 - len(self._looks) if is_last else 1)
            self._level = level
        return self._looks[levels]

    def _looks_of(self, key: int, level: dict[int, int]) -> int:
        if key not in level:
            node = self._nodes[key]
            inner = sum(max((self._level[part] for part in among), default=0) for among in node.parts)
            same = sum(self._looks_of(one, level) for one in node.same)
            level[key] = min(_MAX_LOOKS + 1, max(node.looks, inner) + same)
        return level[key]

    def _own_looks(self, node: dict[str, Any]) -> int:
        entries = sum(len(value) for value in node.values() if isinstance(value, list | dict))
        slow = sum(pattern in self._slow_patterns for pattern in patterns_of(node))
        return 1 + entries // _ENTRIES_PER_LOOK + _SLOW_LOOKS * slow

    def _steps_of(self, key: int, before: tuple[int, ...]) -> int:
        if key in before or len(before) >= _MAX_STEPS:
            raise ValueError(
                f"it refers to itself, or in more than {_MAX_STEPS} steps, without a part of the value between"
            )
        if key not in self._steps:
            self._steps[key] = 1 + max(
                (self._steps_of(one, (*before, key)) for one in self._nodes[key].same), default=0
            )
        return self._steps[key]

    def _same(self, node: dict[str, Any]) -> list[Any]:
        found = [one for keyword in _SAME for one in _below(node, keyword)]
        for keyword in ("$ref", *_DYNAMIC):
            if isinstance(node.get(keyword), str):
                found += self._targets(node, node[keyword])
                found += self._dynamic if keyword in _DYNAMIC else []
        # These look at all that the others have looked at, by asking them once more.
        return _schemas(found) * (1 + ("unevaluatedProperties" in node) + ("unevaluatedItems" in node))

    def _targets(self, node: Any, reference: str) -> list[Any]:
        addresses = {urljoin(base, reference).removesuffix("#") for base in self._bases[id(node)]}
        found = [one for address in addresses for one in self._at(address)]
        if not found and not any(address.startswith(_METASCHEMAS) for address in addresses):
            raise ValueError("it refers to a schema that is neither in it nor among its references")
        return found

    def _at(self, address: str) -> Iterator[Any]:
        yield from self._places.get(address, ())
        document, fragment = urldefrag(address)
        if fragment.startswith("/"):
            keys = [key.replace("~1", "/").replace("~0", "~") for key in unquote(fragment).split("/")[1:]]
            for found in self._places.get(document, ()):
                with suppress(LookupError, TypeError, ValueError):
                    yield reduce(lambda node, key: node[int(key) if isinstance(node, list) else key], keys, found)

    def _name_places(self, document: Any, address: str) -> None:
        """Note by which names a document and its objects can be referred to: one that is of no schema does no harm."""
        self._places[address.removesuffix("#")].append(document)
        waiting = [(document, (address,))]
        while waiting:
            node, bases = waiting.pop()
            if isinstance(node, dict):
                for keyword in ("$id", "id"):
                    if isinstance(node.get(keyword), str):
                        bases += (urljoin(bases[-1], node[keyword]),)
                        self._places[bases[-1].removesuffix("#")].append(node)
                for keyword in ("$anchor", "$dynamicAnchor"):
                    for base in bases:
                        self._places[f"{urldefrag(base).url}#{node.get(keyword)}"].append(node)
                if "$dynamicAnchor" in node or "$recursiveAnchor" in node:
                    self._dynamic.append(node)
                self._bases[id(node)] = bases
            if isinstance(node, dict | list):
                waiting += [(one, bases) for one in (node.values() if isinstance(node, dict) else node)]


def objects_in(document: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a document, also those that are no schemas."""
    waiting = [document]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
        if isinstance(node, dict | list):
            waiting += node.values() if isinstance(node, dict) else node


def patterns_of(node: dict[str, Any]) -> Iterator[str]:
    """Yield the regular expressions of a schema without those in it."""
    if isinstance(node.get("pattern"), str):
        yield node["pattern"]
    if isinstance(node.get("patternProperties"), dict):
        yield from node["patternProperties"]


def _below(node: dict[str, Any], keyword: str) -> list[Any]:
    """Return the schemas of a keyword, which has one, or a list of them, or an object."""
    value = node.get(keyword)
    if keyword in _BY_NAME:
        return _schemas(value.values()) if isinstance(value, dict) else []
    return _schemas(value if isinstance(value, list) else [value])


def _parts(node: dict[str, Any]) -> list[list[Any]]:
    lists = [[one] for keyword in _EACH for one in _below(node, keyword)]
    return [part for part in (*lists, *(_below(node, keyword) for keyword in _ONE_OF)) if part]


def _schemas(values: Iterable[Any]) -> list[Any]:
    """Return those of the values that are objects: others look at nothing."""
    return [value for value in values if isinstance(value, dict)]


def _levels(value: Any) -> int:
    """Return how many arrays and objects of a value are in one another."""
    levels, inner = 0, [value]
    while inner := [one for one in inner if isinstance(one, list | dict)]:
        inner = [part for one in inner for part in (one.values() if isinstance(one, dict) else one)]
        levels += 1
    return levels
