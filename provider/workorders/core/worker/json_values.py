"""Inputs and outputs as Python values: exact where JSON is wider than its readers, and no more than jsonb holds."""

import json
import re
from typing import Any, Final

import orjson

from workorders.core.json_text import dumps
from workorders.core.worker.exceptions import InputUnreadableError, OutputTooLargeError

__all__ = ["dumps", "loads", "serialize_output"]

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


def serialize_output(returned: Any, output_bytes: int) -> bytes | None:
    """Return the JSON text that is kept of what a run returned; None when it returned nothing.

    Raises:
        OutputTooLargeError: it has more bytes than the limit.
        TypeError: JSON has no such type.
        ValueError: JSON or jsonb lacks the value.
    """
    if returned is None:
        return None
    output = dumps(returned)
    if len(output) > output_bytes:
        raise OutputTooLargeError(
            f"The output has {len(output)} bytes, more than output_bytes ({output_bytes}) of the workflow."
        )
    return output
