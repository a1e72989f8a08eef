r"""Validates the bytes of a message as the body of a work order. Pure, and the same for every source.

A value becomes the body, byte for byte, if it is a JSON object that `orjson` reads and that Postgres stores as jsonb.
Everything else is rejected with the reason and the place. A detail names kinds and places, never data, because it is
shown in lists and logs, while the data may be a health record. The last one of repeated keys wins, as in jsonb.

Where jsonb (measured on PostgreSQL 18) is narrower than `orjson`:

- it has no NUL character, so no `\u0000` in a string or a key;
- numeric holds 16383 digits after the decimal point.

jsonb is wider for numbers beyond the range of a double, and for more than 1024 levels of arrays and objects. Such a
message is rejected too, because no reader could load the body again.

Postgres stores `1e-9999` in a few bytes and writes it with 10,000 digits, so that 1 MB of them is a text beyond all
limits: every statement that reads the row fails, and with it the statement's work for other rows. So
exponents are bounded, each by what a double needs, and all of a message together.
"""

import re
from typing import Final

import orjson

from workorders.core.items import Rejection
from workorders.core.json_bytes import NUL_ESCAPE

NUMERIC_FRACTION_DIGITS: Final = 16_383
LARGEST_EXPONENT: Final = 400
"""A double needs none beyond this, in any notation of its digits. Exponents count without their sign."""
LARGEST_SUM_OF_EXPONENTS: Final = 1024 * 1024
"""Of a message: the maximum number of characters by which its numbers grow when they are written out, about."""
SMALLEST_EXPONENT_THAT_COUNTS: Final = 10
"""Those below make a number about three times as long at most."""

#: A value without a match of this needs no closer look at its escapes and exponents. What follows the exponent keeps
#: identifiers such as `4e12-9a` out, because ordinary messages are full of them. RE2 knows these words as well.
SUSPICIOUS_PATTERN: Final = r"\\u0000|[0-9][eE][+-]?0*[1-9][0-9]+[ \t\r\n]*[,\]}]"
#: A number that is out of range with an exponent that passes has at least this many digits in one run.
LONG_RUN_OF_DIGITS: Final = NUMERIC_FRACTION_DIGITS - LARGEST_EXPONENT

# All patterns run in linear time: possessive quantifiers, and a look-behind so that a run is tried only from its start.
_ODD: Final = re.compile(SUSPICIOUS_PATTERN.encode())
_SAMPLE_STEP: Final = 251
_SAMPLED_RUN: Final = re.compile(rb"[0-9]{%d}" % (LONG_RUN_OF_DIGITS // _SAMPLE_STEP))
_EXPONENT: Final = re.compile(rb"[0-9][eE][+-]?0*+([1-9][0-9]++)[ \t\r\n]*+[,\]}]")
_STRING_OR_NUMBER: Final = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
    rb"|-?[0-9]++(?:\.(?P<fraction>[0-9]++))?(?:[eE](?P<sign>[+-]?)(?P<exponent>[0-9]++))?"
)
_NOT_A_NUMBER: Final = re.compile(r"(?:NaN|Infinity)\b")
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")

_KINDS: Final = {
    dict: "an object",
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "the word null",
}

# Only a value that cannot be read is compared with these, so a wrong guess costs no message.
_FOREIGN: Final = (
    (
        rb"\0{5}",
        "in a frame of Apicurio Registry with an id of eight bytes: set apicurio.registry.id-handler in the sender to "
        "a handler of four bytes, and format and registry_connection in the trigger",
    ),
    (
        rb"\0.{4}",
        "in a frame of a schema registry (a zero byte and an id): set format (avro, protobuf, or json_schema) and "
        "registry_connection in the trigger",
    ),
    (
        rb"\x01.{16}",
        "in a frame of a schema registry with an id of 16 bytes: the sender must use an id of four bytes",
    ),
    (
        rb"\xc3\x01.{8}",
        "one Avro object without a schema registry: the sender must use a registry's serializer, or JSON",
    ),
    (rb"Obj\x01", "an Avro object container file: the sender must use a registry's serializer, or JSON"),
    (rb"\xac\xed\0\x05", "a serialized Java object: set a JSON serializer in the sender"),
    (rb"\x80[\x02-\x05]", "a Python pickle: set a JSON serializer in the sender"),
    (rb"\x1f\x8b", "compressed by gzip: set compression.type in the sender instead"),
    (rb"\x28\xb5\x2f\xfd", "compressed by zstd: set compression.type in the sender instead"),
    (rb"\x04\x22\x4d\x18", "compressed by lz4: set compression.type in the sender instead"),
    (rb"\x82SNAPPY|\xff\x06\0\0sNaPpY", "compressed by Snappy: set compression.type in the sender instead"),
    (rb"\xff\xfe.\0|\xfe\xff\0.|[{\[]\0|\0[{\[]", "in UTF-16: the sender must encode JSON in UTF-8"),
    (rb"(?:\xef\xbb\xbf)?\s*+<[?!a-zA-Z]", "XML or HTML: set a JSON serializer in the sender"),
    (rb"\{\s*'", "a Python dict as text: the sender must use json.dumps, not str"),
    (rb"[\w.%+\-\[\]]++=[^\s{}\"=][^\s{}\"]*\Z", "an HTML form: set the content type application/json in the sender"),
)
_ANY_FOREIGN: Final = re.compile(b"|".join(b"(%b)" % pattern for pattern, _ in _FOREIGN), re.DOTALL)


def kind_of(parsed: object) -> str:
    """Return in words what kind of JSON a value is."""
    return _KINDS[type(parsed)]


def validate_body(value: bytes, max_bytes: int, *, odd: bool = True) -> Rejection | None:
    """Return why the raw bytes of a message cannot be a body, or None when they can.

    A value with more than `max_bytes` is rejected unread. `odd` is whether it may match `SUSPICIOUS_PATTERN`, which for
    a whole column is found out at once.
    """
    if len(value) > max_bytes:
        return Rejection("too-large", f"the value has {len(value)} bytes, more than max_message_bytes ({max_bytes})")
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        return _unreadable(value, error)
    if type(parsed) is not dict:
        return _not_an_object(parsed)
    odd = odd and _ODD.search(value) is not None
    if odd and (escape := NUL_ESCAPE.search(value)) is not None:
        return Rejection("nul-character", f"the NUL character is an escape (u0000) at byte {escape.end() - 6}")
    # Every 251st byte shows a long run of digits (a prime, out of step with tables of numbers): reading all is slow.
    has_long_run = len(value) > LONG_RUN_OF_DIGITS and _SAMPLED_RUN.search(value[::_SAMPLE_STEP]) is not None
    return _number_out_of_range(value) if has_long_run or (odd and _may_grow(value)) else None


def _not_an_object(parsed: object) -> Rejection:
    if isinstance(parsed, str) and parsed.lstrip().startswith("{"):
        return Rejection("not-an-object", "the value is JSON in a string: the sender must serialize it once, not twice")
    return Rejection("not-an-object", f"the value is {kind_of(parsed)}, not an object")


def _may_grow(value: bytes) -> bool:
    """Tell whether the exponents of a JSON text may be out of bounds; what looks like one in a string counts, too."""
    exponents = _EXPONENT.findall(value)
    if max(map(len, exponents), default=0) > len(str(LARGEST_EXPONENT)):
        return True
    sizes = list(map(int, exponents))
    return max(sizes, default=0) > LARGEST_EXPONENT or sum(sizes) > LARGEST_SUM_OF_EXPONENTS


def _number_out_of_range(value: bytes) -> Rejection | None:
    """Return the rejection for the first number of a JSON text that Postgres cannot hold, or writes out too long."""
    total = 0
    for token in _STRING_OR_NUMBER.finditer(value):
        # Cut after eleven digits: Python refuses to convert more than 4300.
        size = int((token["exponent"] or b"").lstrip(b"0")[:11] or b"0")
        total += size if size >= SMALLEST_EXPONENT_THAT_COUNTS else 0
        if size > LARGEST_EXPONENT:
            return _out_of_range(token.start(), f"has an exponent beyond {LARGEST_EXPONENT}")
        if total > LARGEST_SUM_OF_EXPONENTS:
            return _out_of_range(
                token.start(), f"makes the exponents of the value add up to more than {LARGEST_SUM_OF_EXPONENTS}"
            )
        exponent = -size if token["sign"] == b"-" else size
        if len(token["fraction"] or b"") - exponent > NUMERIC_FRACTION_DIGITS:
            return _out_of_range(
                token.start(),
                f"has more digits than Postgres holds ({NUMERIC_FRACTION_DIGITS} after the decimal point)",
            )
    return None


def _out_of_range(at: int, clause: str) -> Rejection:
    return Rejection("number-out-of-range", f"the number at byte {at} {clause}")


def _unreadable(value: bytes, error: orjson.JSONDecodeError) -> Rejection:
    """Name what `orjson` could not read; it counts characters, but a detail counts bytes, as raw values do."""
    if (found := recognize(value)) is not None:
        return Rejection("not-json", f"the value is {found}")
    try:
        text = value.decode()
    except UnicodeDecodeError as not_utf8:
        return Rejection("not-utf8", f"the value is not UTF-8 at byte {not_utf8.start}")
    if not text.strip():
        return Rejection("not-json", "the value is white space only" if text else "the value is empty")
    code, clause = _fault(text, error)
    return Rejection(code, f"{clause} at byte {len(text[: error.pos].encode())}")


def recognize(value: bytes) -> str | None:
    """Return what a value is, and what to set, as a clause after "it is"; None if that is not known."""
    found = _ANY_FOREIGN.match(value)
    return None if found is None or found.lastindex is None else _FOREIGN[found.lastindex - 1][1]


def _fault(text: str, error: orjson.JSONDecodeError) -> tuple[str, str]:
    faults = (
        (text.startswith("\ufeff"), "not-json", "the value starts with a byte order mark, which JSON lacks,"),
        (_NOT_A_NUMBER.match(text, error.pos), "not-a-number", "NaN or Infinity, which JSON lacks, is"),
        (_SURROGATE_ESCAPE.match(text, error.pos), "lone-surrogate", "half of a surrogate pair is alone"),
        (text.startswith("\0", error.pos), "nul-character", "a NUL character is"),
        ("infinity" in error.msg, "number-out-of-range", "a number is beyond the range of a double"),
        ("limit" in error.msg, "nested-too-deep", "arrays and objects are more than 1024 levels deep"),
    )
    return next(((code, clause) for applies, code, clause in faults if applies), ("not-json", error.msg))
