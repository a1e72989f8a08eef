"""Forms in which a trigger's fields may be written, each with the sentence that names the right form."""

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BeforeValidator, WithJsonSchema

KIB: Final = 1024
MIB: Final = 1024 * KIB

REGEX_MARK: Final = "^"
"""A topic that begins with it is a regular expression, as in librdkafka."""
TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")

IMPORT_PATH: Final = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+"
"""A name in a module, such as `shop.alerts.page`."""

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
_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([a-zA-Z]+)")

BYTES_SCHEMA: Final = WithJsonSchema(
    {
        "anyOf": [
            {"type": "integer", "minimum": 1},
            {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?([kKmMgG]i?)?[bB]$", "examples": ["64 MiB"]},
        ]
    }
)
SECONDS_SCHEMA: Final = WithJsonSchema(
    {
        "anyOf": [
            {"type": "number", "minimum": 0},
            {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?(ms|s|m|h|d)$", "examples": ["500 ms", "2 s", "1 m"]},
        ]
    }
)


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


def seconds(smallest: float) -> BeforeValidator:
    """Accept a number of seconds, or a text such as `500 ms`; the field holds a float of seconds."""
    form = "a number of seconds or a text such as 500 ms, 2 s, 1 m or 1 h"

    def parse(value: Any) -> float:
        number = _quantity(value, _SECOND_UNITS, form)
        if number < smallest:
            raise ValueError(f"expected {form}, at least {smallest:g} s, got {value!r}.")
        return float(number)

    return BeforeValidator(parse)


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


def one_of(*words: str) -> BeforeValidator:
    """Accept one of some words."""

    def check(value: Any) -> str:
        if value not in words:
            raise ValueError(f"expected {' or '.join(words)}, got {value!r}.")
        return str(value)

    return BeforeValidator(check)


def rate(value: Any) -> float | None:
    """Return a number of messages a second above 0, or None for no limit."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"expected a number of messages a second above 0, or null for no limit, got {value!r}.")
    return float(value)


def share(value: Any) -> float | None:
    """Return a share above 0 and below 1, or None for no limit.

    More than all messages cannot be rejected, so a limit of 1 would never hold anything back: that is refused, too.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ValueError(f"expected a share above 0 and below 1 such as 0.5, or null for no limit, got {value!r}.")
    return float(value)


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


def topics(value: Any) -> tuple[str, ...]:
    """Return topic names and regular expressions, each once."""
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(rf"expected a list of topics such as [orders] or ['^orders\.'], got {value!r}.")
    for topic in value:
        _check_topic(topic)
    if len(set(value)) < len(value):
        raise ValueError(f"expected every topic once, got {list(value)!r}.")
    return tuple(value)


def header_names(value: Any) -> str | tuple[str, ...]:
    """Return `all`, `none` or the names of headers."""
    if value in ("all", "none"):
        return str(value)
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise ValueError(f"expected all, none or a list of header names such as [traceparent], got {value!r}.")


def _check_topic(topic: Any) -> None:
    if not isinstance(topic, str):
        raise ValueError(f"expected topics as text, got {topic!r}; put it in quotes.")
    if topic.startswith(REGEX_MARK):
        try:
            re.compile(topic)
        except re.error as error:
            raise ValueError(f"expected a regular expression behind the ^, got {topic!r} ({error}).") from error
    elif not TOPIC_NAME.fullmatch(topic) or topic in {".", ".."}:
        raise ValueError(
            f"expected a topic's name (1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', but not '.' or '..') "
            f"or a regular expression that begins with ^, got {topic!r}."
        )


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
