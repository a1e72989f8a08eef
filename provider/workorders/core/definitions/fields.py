"""Forms in which a definition's fields may be written, each with the sentence that names the right form."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from pydantic import BeforeValidator, WithJsonSchema

KIB: Final = 1024
MIB: Final = 1024 * KIB
DAY_SECONDS: Final = 86_400.0

_BYTE_UNITS: Final[Mapping[str, float]] = {
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "kib": KIB,
    "mib": MIB,
    "gib": 1024 * MIB,
}
_SECOND_UNITS: Final[Mapping[str, float]] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
IMPORT_PATH: Final = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+"
"""A name in a module, such as `shop.alerts.page`."""
_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([a-zA-Z]+)")

BYTES_SCHEMA: Final = WithJsonSchema(
    {
        "anyOf": [
            {"type": "integer", "minimum": 1},
            {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?([kKmMgG]i?)?[bB]$", "examples": ["64 MiB"]},
        ]
    }
)


def _seconds_schema(*examples: str, others: Sequence[Mapping[str, Any]] = ()) -> WithJsonSchema:
    number = {"type": "number", "minimum": 0}
    text = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?(ms|s|m|h|d)$", "examples": [*examples]}
    return WithJsonSchema({"anyOf": [number, text, *others]})


SECONDS_SCHEMA: Final = _seconds_schema("500 ms", "2 s", "1 m")
SECONDS_OR_EVER_SCHEMA: Final = _seconds_schema("24 h", "30 d", others=[{"type": "null"}])


def byte_count(smallest: int, largest: int | None = None) -> BeforeValidator:
    """Accept a whole number of bytes, or a text such as `64 MiB`; the field holds an int."""
    form = "a whole number of bytes or a text such as 64 MiB"

    def parse(value: Any) -> int:
        number = _quantity(value, _BYTE_UNITS, form)
        if number != int(number) or number < smallest:
            raise ValueError(f"expected {form}, at least {smallest} bytes, got {value!r}.")
        if largest is not None and number > largest:
            raise ValueError(f"expected {form}, at most {largest} bytes, got {value!r}.")
        return int(number)

    return BeforeValidator(parse)


def seconds(smallest: float, largest: float | None = None) -> BeforeValidator:
    """Accept a number of seconds, or a text such as `500 ms`; the field holds a float of seconds."""
    form = "a number of seconds or a text such as 500 ms, 2 s, 1 m or 1 h"

    def parse(value: Any) -> float:
        number = _quantity(value, _SECOND_UNITS, form)
        if number < smallest:
            raise ValueError(f"expected {form}, at least {smallest:g} s, got {value!r}.")
        if largest is not None and number > largest:
            raise ValueError(f"expected {form}, at most {largest:g} s, got {value!r}.")
        return float(number)

    return BeforeValidator(parse)


def seconds_or_ever(smallest: float) -> BeforeValidator:
    """Accept what `seconds` does, or null for a time without an end."""
    parse = seconds(smallest).func

    def check(value: Any) -> float | None:
        return None if value is None else cast("Callable[[Any], float]", parse)(value)

    return BeforeValidator(check)


def whole_number(smallest: int, largest: int) -> BeforeValidator:
    """Accept a whole number between two bounds, both included."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= largest:
            raise ValueError(f"expected a whole number from {smallest} to {largest}, got {value!r}.")
        return value

    return BeforeValidator(check)


def text(form: str) -> BeforeValidator:
    """Accept a text that is not blank; `form` says what it should be."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"expected {form}, got {value!r}.")
        return value

    return BeforeValidator(check)


def import_paths(value: Any) -> tuple[str, ...]:
    """Return names in modules, each once; they are not imported here."""
    form = "a list of names in modules such as [shop.alerts.page]"
    if not isinstance(value, list | tuple):
        raise ValueError(f"expected {form}, got {value!r}.")
    for path in value:
        if not isinstance(path, str) or not re.fullmatch(IMPORT_PATH, path):
            raise ValueError(f"expected {form}, got {path!r}.")
    if len(set(value)) < len(value):
        raise ValueError(f"expected every name once, got {list(value)!r}.")
    return tuple(value)


def one_of(*words: str) -> BeforeValidator:
    """Accept one of some words."""

    def check(value: Any) -> str:
        if value not in words:
            raise ValueError(f"expected {' or '.join(words)}, got {value!r}.")
        return str(value)

    return BeforeValidator(check)


def _quantity(value: Any, units: Mapping[str, float], form: str) -> float:
    number: float | None = None
    if isinstance(value, str):
        match = _QUANTITY.fullmatch(value.strip())
        if match and match[2].lower() in units:
            number = float(match[1]) * units[match[2].lower()]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = value
    if number is None or not math.isfinite(number):
        raise ValueError(f"expected {form}, got {value!r}.")
    return number
