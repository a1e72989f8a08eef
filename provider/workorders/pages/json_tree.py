"""JSON as a tree of bounded size: what strangers send may be huge, deep, or made to look like something else."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

MAX_BYTES: Final = 256 * 1024
"""A longer text is not parsed: its beginning is shown, and the whole is a download."""
MAX_NODES: Final = 1_000
MAX_DEPTH: Final = 20
MAX_TEXT: Final = 2_000
"""Characters of one value that are shown."""
_SHOWN_AS_TEXT: Final = 64 * 1024
_OPEN_CHILDREN: Final = 50
_OPEN_DEPTH: Final = 2


class _Number(str):
    """A number as it was written, because a browser's numbers are narrower."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the tree."""

    name: str | None
    """Its key, or its place in a list; None at the top."""
    kind: str
    """object, array, string, number, boolean, null, or more (which stands for what is left out)."""
    text: str
    """The value of a leaf, and what a branch contains, in words."""
    children: tuple["Node", ...] = ()
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Tree:
    """A JSON text to be shown."""

    root: Node | None
    """None if the text is too large or too deep for a tree."""
    beginning: str
    """The beginning of the text, if it has no tree."""
    size: int
    """Bytes of the whole text in UTF-8."""
    is_complete: bool


def of(text: str | None, whole_bytes: int | None = None) -> Tree | None:
    """Return the tree of a JSON text, bounded in size; None for no text.

    Args:
        text: all of it, or its first `MAX_BYTES` characters.
        whole_bytes: of the whole text in UTF-8; None if this is the whole.
    """
    if text is None:
        return None
    size = len(text.encode("utf-8", "surrogatepass")) if whole_bytes is None else whole_bytes
    try:
        value = json.loads(text, parse_int=_Number, parse_float=_Number) if size <= MAX_BYTES else _TOO_LARGE
    except (ValueError, RecursionError):
        value = _TOO_LARGE
    if value is _TOO_LARGE:
        return Tree(None, text[:_SHOWN_AS_TEXT], size, size <= _SHOWN_AS_TEXT)
    budget = _Budget(MAX_NODES)
    root = _node(None, value, 0, budget)
    return Tree(root, "", size, not budget.has_left_out)


_TOO_LARGE: Final = object()


@dataclass(slots=True)
class _Budget:
    nodes: int
    has_left_out: bool = False


def _node(name: str | None, value: Any, depth: int, budget: _Budget) -> Node:
    budget.nodes -= 1
    if isinstance(value, dict | list):
        return _branch(name, value, depth, budget)
    kind, text = _leaf(value)
    if len(text) > MAX_TEXT:
        budget.has_left_out = True
        text = f"{text[:MAX_TEXT]}… ({len(text):,} characters)"
    return Node(name, kind, text)


def _branch(name: str | None, value: dict[str, Any] | list[Any], depth: int, budget: _Budget) -> Node:
    is_object = isinstance(value, dict)
    kind, brackets = ("object", "{}") if is_object else ("array", "[]")
    count = len(value)
    words = f"{brackets[0]}{count:,} {'key' if is_object else 'item'}{'' if count == 1 else 's'}{brackets[1]}"
    if depth >= MAX_DEPTH:
        budget.has_left_out = True
        return Node(name, kind, words, (Node(None, "more", "deeper levels are in the download"),))
    children = []
    for shown, (key, child) in enumerate(_items(value)):
        if budget.nodes <= 0:
            budget.has_left_out = True
            children.append(Node(None, "more", f"{count - shown:,} more are in the download"))
            break
        children.append(_node(key, child, depth + 1, budget))
    is_open = depth < _OPEN_DEPTH and count <= _OPEN_CHILDREN
    return Node(name, kind, words if count else brackets, tuple(children), is_open)


def _items(value: dict[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    else:
        yield from ((str(place), child) for place, child in enumerate(value))


def _leaf(value: Any) -> tuple[str, str]:
    if isinstance(value, _Number):
        return "number", str(value)
    if isinstance(value, str):
        return "string", value
    if isinstance(value, bool):
        return "boolean", "true" if value else "false"
    return "null", "null" if value is None else str(value)
