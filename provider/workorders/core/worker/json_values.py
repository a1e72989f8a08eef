"""Inputs and outputs as Python values: exact where JSON is wider than its readers, and no more than jsonb holds."""

import json
import re
from typing import Any, Final

import orjson

from workorders.core.json_bytes import NUL_ESCAPE
from workorders.core.worker.exceptions import InputUnreadableError, OutputTooLargeError

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
    """Return a value as JSON text that jsonb holds.

    Raises:
        TypeError: JSON has no such value.
        ValueError: it holds what jsonb does not: NUL characters, or a float that is no number.
    """
    try:
        text = orjson.dumps(value)
    except TypeError:
        # Integers beyond 64 bits, which jsonb holds and orjson does not write.
        text = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    if b"\\u0000" in text and NUL_ESCAPE.search(text):
        raise ValueError("the output holds a NUL character, and Postgres has no text with one")
    return text


def serialize_output(returned: Any, output_bytes: int) -> bytes | None:
    """Return the JSON text that is kept of what a run returned; None when it returned nothing.

    Raises:
        OutputTooLargeError: it has more bytes than the limit.
        TypeError: JSON has no such value.
        ValueError: it holds what jsonb does not.
    """
    if returned is None:
        return None
    output = dumps(returned)
    if len(output) > output_bytes:
        raise OutputTooLargeError(
            f"The output has {len(output)} bytes, more than output_bytes ({output_bytes}) of the workflow."
        )
    return output
