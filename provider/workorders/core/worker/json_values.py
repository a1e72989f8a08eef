"""Inputs, outputs, and published values as Python values: exact where JSON is wider than its readers."""

import dataclasses
import json
import re
from typing import Any, Final

import orjson

from workorders.core.json_bytes import NUL_ESCAPE
from workorders.core.worker.exceptions import InputUnreadableError, InvalidValueError, OutputTooLargeError

# orjson reads an integer beyond 64 bits as a float, and would change it.
_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")


def loads(text: bytes) -> Any:
    """Return the value of JSON text, every digit of its integers kept.

    Raises:
        InputUnreadableError: Python has no such value, because it is nested too deep or contains too long a number.
    """
    try:
        return json.loads(text) if _LONG_NUMBER.search(text) else orjson.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputUnreadableError(f"The input of this work order cannot be read: {error}.") from error


def dumps(value: Any) -> bytes:
    """Return a value as JSON text: every digit of its integers, dates as ISO 8601, and number keys as text.

    Raises:
        InvalidValueError: JSON has no such value, for example no NaN; the error names its path.
    """
    try:
        text = orjson.dumps(value)
    except TypeError:
        # Integers beyond 64 bits, number keys, and deep nesting, which JSON holds and orjson does not write.
        return _exact(value)
    if b"null" in text:
        # orjson writes NaN and infinity as null.
        _exact(value)
    return text


def _exact(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_leaf).encode()
    except (TypeError, ValueError, RecursionError) as error:
        place = _find_invalid(value, "") or f"{error}"
        raise InvalidValueError(f"JSON cannot hold what the function returned or published: {place}.") from error


def _leaf(value: Any) -> Any:
    """Return a value that only orjson writes, such as a date, in terms of those that json writes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
        return {name: getattr(value, name) for name in names}
    return orjson.loads(orjson.dumps(value))


def _find_invalid(value: Any, path: str) -> str | None:
    """Return path and kind of the first part that JSON cannot hold; None if only the whole is too deep."""
    try:
        if dataclasses.is_dataclass(value):
            value = _leaf(value)
        if not isinstance(value, dict | list | tuple):
            json.dumps(value, ensure_ascii=False, allow_nan=False, default=_leaf).encode()
            return None
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            json.dumps({name: None}, ensure_ascii=False).encode()
            if found := _find_invalid(part, f"{path}/{name}"):
                return found
    except RecursionError:
        return None
    except (TypeError, ValueError) as error:
        return f"{path or '/'} is {value if isinstance(value, float) else type(value).__name__}: {error}"
    return None


def serialize_output(returned: Any, output_bytes: int) -> bytes | None:
    """Return the JSON text that is kept of what a run returned; None when it returned nothing.

    Raises:
        OutputTooLargeError: it has more bytes than the limit.
        InvalidValueError: JSON has no such value, or it holds a NUL character, which jsonb does not.
    """
    if returned is None:
        return None
    output = dumps(returned)
    if len(output) > output_bytes:
        raise OutputTooLargeError(
            f"The output has {len(output)} bytes, more than output_bytes ({output_bytes}) of the workflow."
        )
    if b"\\u0000" in output and NUL_ESCAPE.search(output):
        raise InvalidValueError("The output holds a NUL character, and Postgres has no text with one.")
    return output
