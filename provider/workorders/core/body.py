r"""Whether the bytes of a message can be the body of a work order; pure, and the same for every source of bytes.

The rule of acceptance: the value becomes the body, byte for byte, when it is a JSON object that `orjson` reads and that
Postgres holds as jsonb. Everything else is a rejection that says what and where. A detail names kinds and places, never
data, for it is shown in lists and logs, while the data may be a health record. Of a repeated key the last one wins, as
in jsonb.

Where jsonb (measured on PostgreSQL 18) is narrower than `orjson`:

- it has no NUL character, so no `\u0000` in a string or a key;
- numeric holds 16383 digits after the decimal point, and takes no exponent above 1073741823, not even on a zero.

Where it is wider, and a message is refused all the same because no reader could load the body again: numbers beyond
the range of a double, and more than 1024 levels of arrays and objects.
"""

import re
from typing import Final

import orjson

from workorders.core.items import Rejection

NUMERIC_FRACTION_DIGITS: Final = 16_383
NUMERIC_EXPONENT: Final = 1_073_741_823

#: A value without a match of this needs no closer look at its escapes and exponents. A far exponent is negative, or
#: a double holds the number in spite of it (a zero). RE2 knows these words as well.
ODD_PATTERN: Final = r"\\u0000|[eE](-[0-9]{5}|\+?[0-9]{10})"
#: A number that is out of range with an exponent of at most four digits has more digits than this in one run.
LONG_RUN_OF_DIGITS: Final = NUMERIC_FRACTION_DIGITS - 9_999

# All patterns run in linear time: possessive quantifiers, and a look-behind so that a run is tried only from its start.
_ODD: Final = re.compile(ODD_PATTERN.encode())
_SAMPLE_STEP: Final = 251
_SAMPLED_RUN: Final = re.compile(rb"[0-9]{%d}" % (LONG_RUN_OF_DIGITS // _SAMPLE_STEP))
_NUL_ESCAPE: Final = re.compile(rb"(?<!\\)(?:\\\\)*+\\u0000")
_STRING_OR_NUMBER: Final = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
    rb"|-?[0-9]++(?:\.(?P<fraction>[0-9]++))?(?:[eE](?P<sign>[+-]?)(?P<exponent>[0-9]++))?"
)
_NOT_A_NUMBER: Final = re.compile(r"(?:NaN|Infinity)\b")
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

_KINDS: Final = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "the word null",
}


def is_odd(value: bytes) -> bool:
    """Tell whether `judge` must look closer; a caller with a whole column asks `ODD_PATTERN` of all at once."""
    return _ODD.search(value) is not None


def judge(value: bytes, max_bytes: int, *, odd: bool) -> Rejection | None:
    """Return why a value cannot be a body, or None when it can.

    Args:
        value: The raw bytes of a message.
        max_bytes: A longer value is rejected unread.
        odd: Whether the value matches `ODD_PATTERN`.
    """
    if len(value) > max_bytes:
        return Rejection("too-large", f"the value has {len(value)} bytes, more than max_message_bytes ({max_bytes})")
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        return _unreadable(value, error)
    if type(parsed) is not dict:
        return Rejection("not-an-object", f"the value is {_KINDS[type(parsed)]}, not an object")
    # Every 251st byte shows a long run of digits (a prime, out of step with tables of numbers): reading all is slow.
    if odd or (len(value) > LONG_RUN_OF_DIGITS and _SAMPLED_RUN.search(value[::_SAMPLE_STEP])):
        return _nul_escape(value) or _number_out_of_range(value)
    return None


def _nul_escape(value: bytes) -> Rejection | None:
    escape = _NUL_ESCAPE.search(value)
    if escape is None:
        return None
    return Rejection("nul-character", f"the NUL character stands as an escape (u0000) at byte {escape.end() - 6}")


def _number_out_of_range(value: bytes) -> Rejection | None:
    """Return the rejection for the first number of a JSON text that Postgres numeric cannot hold."""
    for token in _STRING_OR_NUMBER.finditer(value):
        exponent = _small_int(token["exponent"] or b"")
        if token["sign"] == b"-":
            exponent = -exponent
        if exponent > NUMERIC_EXPONENT or len(token["fraction"] or b"") - exponent > NUMERIC_FRACTION_DIGITS:
            return Rejection(
                "number-out-of-range",
                f"the number at byte {token.start()} has more digits than Postgres holds "
                f"({NUMERIC_FRACTION_DIGITS} after the decimal point)",
            )
    return None


def _small_int(digits: bytes) -> int:
    """Return digits as a number, cut after eleven of them: Python refuses to convert more than 4300."""
    return int(digits.lstrip(b"0")[:11] or b"0")


def _unreadable(value: bytes, error: orjson.JSONDecodeError) -> Rejection:
    """Name what `orjson` could not read; it counts characters, but a detail counts bytes, as raw values do."""
    try:
        text = value.decode()
    except UnicodeDecodeError as not_utf8:
        return Rejection("not-utf8", f"the value is not UTF-8 at byte {not_utf8.start}")
    if not text.strip():
        return Rejection("not-json", "the value is white space only" if text else "the value is empty")
    code, clause = _fault(text, error)
    return Rejection(code, f"{clause} at byte {len(text[: error.pos].encode())}")


def _fault(text: str, error: orjson.JSONDecodeError) -> tuple[str, str]:
    faults = (
        (text.startswith("\ufeff"), "not-json", "the value starts with a byte order mark, which JSON lacks,"),
        (_NOT_A_NUMBER.match(text, error.pos), "not-a-number", "NaN or Infinity, which JSON lacks, stands"),
        (_SURROGATE_ESCAPE.match(text, error.pos), "lone-surrogate", "half of a surrogate pair stands alone"),
        (text.startswith("\0", error.pos), "nul-character", "a NUL character stands"),
        ("infinity" in error.msg, "number-out-of-range", "a number is beyond the range of a double"),
        ("limit" in error.msg, "nested-too-deep", "arrays and objects are more than 1024 levels deep"),
    )
    return next(((code, clause) for applies, code, clause in faults if applies), ("not-json", error.msg))
