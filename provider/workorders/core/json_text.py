"""Python values as JSON text: one rule for inputs, outputs, and messages. A value is written exactly, or refused."""

import json
import math
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

import orjson

from workorders.core.json_bytes import NUL_ESCAPE

# Also after an escaped backslash, where it is no NUL; but a search for it takes a hundredth of the pattern's time.
_NUL: Final = b"\\u0000"
_MAX_LEVELS: Final = 1024
"""Arrays and objects within each other, as an input may have at most. Python's stack may end before."""


def dumps(value: Any) -> bytes:
    """Return a value as JSON text that jsonb holds.

    Integers keep all digits. A key that is an integer becomes its digits. Dates, times, UUIDs, and dataclasses are
    written as `orjson` does, and the members of an `Enum` as their values.

    Raises:
        TypeError: JSON has no such type; the sentence names the place of the value.
        ValueError: JSON or jsonb lacks the value: NaN, Infinity, a NUL character, half of a surrogate pair, or one that
            is nested too deep. The sentence names its place.
    """
    try:
        text = orjson.dumps(value)
    except TypeError:
        text = None
    # orjson writes null for NaN. Only a text with such a word is compared with its value, which takes longer.
    if text is None or b"null" in text or (_NUL in text and NUL_ESCAPE.search(text)):
        _require_exact(value)
    if text is not None:
        return text
    # orjson refuses integers beyond 64 bits, keys that are integers, and subclasses such as named tuples.
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain).encode()
    except RecursionError as error:
        raise ValueError("the value is nested deeper than Python's stack") from error


def _require_exact(value: Any) -> None:
    left: list[tuple[tuple[str, ...], Any]] = [((), value)]
    while left:
        path, part = left.pop()
        if len(path) > _MAX_LEVELS:
            raise ValueError(f"the value is nested more than {_MAX_LEVELS} levels deep, or contains itself")
        try:
            left += [((*path, key), inner) for key, inner in _inside(part)]
        except (TypeError, ValueError) as fault:
            raise type(fault)(f"{_place(path)} {fault}") from None


def _inside(part: Any) -> Iterable[tuple[str, Any]]:
    """Return what a value contains; raise what is wrong with it, apart from that."""
    if isinstance(part, str):
        _require_text(part)
    elif isinstance(part, dict):
        _require_keys(part)
        return ((str(key), inner) for key, inner in part.items())
    elif isinstance(part, list | tuple):
        return ((str(index), inner) for index, inner in enumerate(part))
    elif isinstance(part, float) and not math.isfinite(part):
        raise ValueError(f"is {part}, a number that JSON does not have")
    elif isinstance(part, Enum):
        return [("value", part.value)]
    elif _is_dataclass(part):
        return _fields(part).items()
    elif part is not None and not isinstance(part, int | float):
        try:
            orjson.dumps(part)
        except TypeError:
            raise TypeError(f"is of the type {type(part).__name__}, which JSON does not have") from None
    return ()


def _require_text(text: str) -> None:
    if "\0" in text:
        raise ValueError("has a NUL character, which no text in Postgres has")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("has half of a surrogate pair, which is no text") from None


def _require_keys(part: dict[Any, Any]) -> None:
    numbers = set()
    for key in part:
        if isinstance(key, str):
            try:
                _require_text(key)
            except ValueError as fault:
                raise ValueError(f"has a key that {fault}") from None
        elif isinstance(key, int) and not isinstance(key, bool):
            numbers.add(int.__repr__(key))
        else:
            raise TypeError(f"has the key {key!r}, which is neither a text nor an integer")
    if twice := numbers & part.keys():
        raise ValueError(f"has the key {min(twice)} as a text and as an integer")


def _plain(part: Any) -> Any:
    """Return what `json` writes for a value that only `orjson` knows."""
    return _fields(part) if _is_dataclass(part) else orjson.loads(orjson.dumps(part))


def _is_dataclass(part: Any) -> bool:
    return is_dataclass(part) and not isinstance(part, type)


def _fields(part: Any) -> dict[str, Any]:
    return {field.name: getattr(part, field.name) for field in fields(part) if not field.name.startswith("_")}


def _place(path: tuple[str, ...]) -> str:
    pointer = "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)
    return f"the value at {pointer}" if pointer else "the value"
