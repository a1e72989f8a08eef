"""Inputs, outputs, and published values as Python values: exact where JSON is wider than its readers."""

import json
import re
from typing import Any, Final

import orjson

from workorders.core import json_text
from workorders.core.worker.exceptions import InputUnreadableError, InvalidValueError, OutputTooLargeError

# orjson reads an integer beyond 64 bits as a float, and would change it.
_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")
_DIGITS: Final = 19
_NO_DIGITS: Final = bytes(set(range(256)) - set(b"0123456789"))


def loads(text: bytes) -> Any:
    """Return the value of JSON text, every digit of its integers kept."""
    try:
        return json.loads(text) if _has_long_number(text) else orjson.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputUnreadableError(f"The input of this work order cannot be read: {error}.") from error


def _has_long_number(text: bytes) -> bool:
    # Most texts have few digits, and counting them takes a tenth of the pattern's time.
    return len(text.translate(None, _NO_DIGITS)) >= _DIGITS and _LONG_NUMBER.search(text) is not None


def dumps(value: Any) -> bytes:
    """Return a value as JSON text; see `core.json_text.dumps`."""
    try:
        return json_text.dumps(value)
    except (TypeError, ValueError) as error:
        raise InvalidValueError(f"JSON cannot hold what the function returned or published: {error}.") from error


def serialize_output(returned: Any, max_output_bytes: int) -> bytes | None:
    """Return the JSON text that is kept of what a run returned; None when it returned nothing."""
    if returned is None:
        return None
    output = dumps(returned)
    if len(output) > max_output_bytes:
        raise OutputTooLargeError(
            f"The output has {len(output)} bytes, more than max_output_bytes ({max_output_bytes}) of the workflow."
        )
    return output
